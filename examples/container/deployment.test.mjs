// A deployment in a container, called with fetch: `node --test examples/container`, Node 20 or newer.
// RANKSIM_SERVE says how to start one. By default it is `docker run`; without an engine it may be
// `ranksim serve --port 18080`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before, beforeEach, test } from "node:test";

const IN_A_CONTAINER = "docker run --rm --init -p 127.0.0.1:18080:8080 ranksim";
const FLAGS = ["--json", "--clock", "manual", "--start", "2026-03-04T10:00:00Z", "--seed", "7"];
const url = process.env.RANKSIM_URL ?? "http://127.0.0.1:18080";
let server, said;

async function send(token, path, body) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const answer = await fetch(url + path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  return { status: answer.status, headers: answer.headers, body: await answer.json() };
}
const api = (path, body) => send(said.key, path, body);
const control = (path, body) => send(said.control_token, "/_ranksim" + path, body ?? {});

before(async () => {
  const [program, ...words] = (process.env.RANKSIM_SERVE ?? IN_A_CONTAINER).split(" ");
  server = spawn(program, [...words, ...FLAGS], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: server.stdout })) {
    said = JSON.parse(line); // it is written once a request would be answered
    break;
  }
});
beforeEach(() => control("/reset")); // the same world for each test
after(() => server.kill());

test("a crawl comes too soon and then in time", async () => {
  const domain = (await api("/v1/domains", { host: "example.com" })).body.data.id;
  const crawl = { kind: "crawl", domain_id: domain };
  assert.equal((await api("/v1/jobs", crawl)).status, 202);
  const soon = await api("/v1/jobs", crawl);
  assert.deepEqual([soon.status, soon.body.code], [409, "cooldown_active"]);
  await control("/clock/advance", { by: `${soon.headers.get("retry-after")}s` });
  assert.equal((await api("/v1/jobs", crawl)).status, 202);
});

test("a fault is marked", async () => {
  await control("/faults", { operation: "domains.list", error_rate: 1 });
  const answer = await api("/v1/domains");
  assert.deepEqual([answer.status, answer.headers.get("ranksim-fault")], [500, "fault_1"]);
});
