// A program as users of openapi-typescript write it, with its default settings: what is optional is left out.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";
import type { paths as control } from "./control.js";

const [, , baseUrl, key] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
const hands = createClient<control>({ baseUrl });

const domain = await client.POST("/v1/domains", { body: { host: "typed.example" } });
const hook = await client.POST("/v1/webhooks", { body: { url: "HTTP://127.0.0.1:9/" } });
const domain_id = domain.data!.data.id;
const list = await client.POST("/v1/keyword-lists", { body: { domain_id, name: "words" } });
const words = await client.POST("/v1/keywords", { body: { list_id: list.data!.data.id, keywords: ["boots"] } });
const job = await client.POST("/v1/jobs", { body: { kind: "crawl", domain_id } });
const page = await client.GET("/v1/domains", { params: { query: { limit: 1 } } });
const refused = await client.POST("/v1/domains", { body: { host: "no host" } });
if (process.argv.length > 4) await hands.POST("/_ranksim/clock/advance", { body: { by: "1d" } });

const statuses = [domain, hook, list, words, job, page, refused].map((one) => one.response.status);
console.log(JSON.stringify([statuses, page.data!.data.length, refused.error!.code]));
