// A limiter of an npm package behind one GET: node_server.js KIND LIMIT SECONDS PORT [BROKEN]
const [kind, limitText, secondsText, portText, broken = ""] = process.argv.slice(2);
const [limit, seconds, port] = [limitText, secondsText, portText].map(Number);
if (broken.startsWith("drift=")) {
  const fast = Number(broken.slice(6)), real = Date.now, start = real();
  Date.now = () => Math.floor(start + (real() - start) * fast);
  const ticks = process.hrtime, begun = ticks.bigint();
  process.hrtime = (before = [0, 0]) => {
    const now = Number(ticks.bigint() - begun) * fast - before[0] * 1e9 - before[1];
    return [Math.floor(now / 1e9), Math.floor(now % 1e9)];
  };
  process.hrtime.bigint = () => begun + BigInt(Math.round(Number(ticks.bigint() - begun) * fast));
  const timeout = setTimeout, interval = setInterval;
  globalThis.setTimeout = (call, delay, ...rest) => timeout(call, delay / fast, ...rest);
  globalThis.setInterval = (call, delay, ...rest) => interval(call, delay / fast, ...rest);
}
const sleep = (delay) => new Promise((done) => setTimeout(done, delay));
const redis = async () => {
  const client = require("redis").createClient({ url: "redis://127.0.0.1:6399", database: port % 16 });
  await client.connect();
  return client;
};

const kinds = {
  async "express-rate-limit"(store) {
    const { rateLimit } = require("express-rate-limit");
    const app = require("express")();
    app.use(rateLimit({ windowMs: seconds * 1000, limit, standardHeaders: "draft-8", legacyHeaders: false, store }));
    app.get("/", (request, response) => response.send("admitted"));
    app.listen(port, "127.0.0.1");
  },
  async "express-rate-limit-redis"() {
    const client = await redis();
    const { RedisStore } = require("rate-limit-redis");
    await kinds["express-rate-limit"](new RedisStore({ sendCommand: (...words) => client.sendCommand(words) }));
  },
  async "rate-limiter-flexible"() {
    const { RateLimiterMemory } = require("rate-limiter-flexible");
    const limiter = new RateLimiterMemory({ points: limit, duration: seconds });
    const app = require("express")();
    app.get("/", async (request, response) => {
      try {
        if (broken === "race") {
          const before = await limiter.get("all");
          if (before !== null && before.consumedPoints >= limit) throw before;
          await sleep(8);
          await limiter.consume("all").catch(() => {});
        } else {
          await limiter.consume("all");
        }
        response.send("admitted");
      } catch (refused) {
        response.set("Retry-After", String(Math.ceil((refused.msBeforeNext ?? 0) / 1000))).status(429).send("refused");
      }
    });
    app.listen(port, "127.0.0.1");
  },
  async "koa-ratelimit"() {
    const app = new (require("koa"))();
    app.use(require("koa-ratelimit")({ driver: "memory", db: new Map(), duration: seconds * 1000, max: limit, id: () => "all" }));
    app.use((context) => { context.body = "admitted"; });
    app.listen(port, "127.0.0.1");
  },
  async fastify() {
    const app = require("fastify")();
    await app.register(require("@fastify/rate-limit"), { max: limit, timeWindow: seconds * 1000 });
    app.get("/", async () => "admitted");
    await app.listen({ port, host: "127.0.0.1" });
  },
};
kinds[kind]();
