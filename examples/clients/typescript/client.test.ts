import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest"; // of Jest they are global
import { Client, verified } from "./client";
import { serve } from "./ranksim";

type Fake = Awaited<ReturnType<typeof serve>>;
let fake: Fake, near: Fake; // near its limits
let client: Client;
beforeAll(async () => void ([fake, near] = await Promise.all([serve(), serve("../near.yaml")])));
afterAll(() => [fake, near].forEach((one) => one.stop()));
beforeEach(async () => {
  for (const one of [fake, near]) await one.control("POST", "/reset");
  client = new Client(fake.url, fake.key, fake.sleep);
});
const nearly = () => new Client(near.url, near.key, near.sleep);
const domain = async () => (await client.call("POST", "/v1/domains", { host: "a.example" })).data.id;
const first = async (of: Client, path: string) => (await of.each(path).next()).value.id;
const made = async (expected: object) => (await fake.control("POST", "/requests/verify", { expected })).count;

test("a full rate window is waited for", async () => {
  const crawl = { kind: "crawl", dry_run: true, domain_id: await domain() };
  for (let n = 0; n < 21; n++) await client.call("POST", "/v1/jobs", crawl); // 20 a minute
  expect(await made({ operation: "jobs.create", status: 429 })).toBe(1);
});

test("a gateway that fails is asked again", async () => {
  await fake.control("POST", "/faults", { operation: "account.get", status: 502, body: "html", times: 2 });
  expect((await client.call("GET", "/v1/account")).data.plan).toBe("pro");
  expect(await made({ operation: "account.get" })).toBe(3);
});

test("a lost answer does nothing twice", async () => {
  await fake.control("POST", "/faults", { operation: "domains.create", drop_after_rate: 1, times: 1 });
  await domain();
  expect((await client.call("GET", "/v1/domains")).data).toHaveLength(1);
});

test("who answers too late is asked again", async () => {
  await fake.control("POST", "/faults", { operation: "account.get", latency: "1h", times: 1 });
  client.timeout = 500;
  expect((await client.call("GET", "/v1/account")).data.plan).toBe("pro");
});

test("pages are read to the end", async () => {
  const ids = new Set<string>();
  for await (const keyword of nearly().each("/v1/keywords")) ids.add(keyword.id);
  expect(ids.size).toBe(4990);
});

test("slots run out", async () => {
  const list_id = await first(nearly(), "/v1/keyword-lists");
  const keywords = Array.from({ length: 11 }, (_, n) => `new ${n}`);
  const refused = nearly().call("POST", "/v1/keywords", { list_id, keywords });
  await expect(refused).rejects.toMatchObject({ code: "slot_limit_exceeded" });
});

test("a quota runs out and comes back with the week", async () => {
  const keyword_id = await first(nearly(), "/v1/keywords");
  const brief = () => nearly().call("POST", "/v1/keyword-briefs", { keyword_id });
  await brief();
  await expect(brief()).rejects.toMatchObject({ code: "quota_exhausted" });
  await near.control("POST", "/clock/advance", { until: { meter: "keyword_brief_refreshes" } });
  await brief();
});

test("a webhook is verified", async () => {
  const came: { body: string; signature: string }[] = [];
  const receiver = createServer(async (request, reply) => {
    came.push({ body: await text(request), signature: String(request.headers["service-signature"]) });
    reply.end();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const { secret } = (await client.call("POST", "/v1/webhooks", { url })).data;
  const job = (await client.call("POST", "/v1/jobs", { kind: "crawl", domain_id: await domain() })).data.id;
  await fake.control("POST", "/clock/advance", { until: { job } });
  receiver.close();
  expect(came.map(({ body }) => JSON.parse(body).data.job.id)).toEqual([job]);
  expect(verified(came[0].body, came[0].signature, secret)).toBe(true);
  expect(verified(`${came[0].body} `, came[0].signature, secret)).toBe(false);
});

test("the sandbox is a world apart", async () => {
  await domain();
  const sandbox = new Client(`${fake.url}/sandbox`, fake.sandboxKey);
  expect((await sandbox.call("GET", "/v1/domains")).data).toEqual([]);
});
