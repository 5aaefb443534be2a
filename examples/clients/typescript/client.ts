/** A client as applications write one for the real service: nothing here knows of ranksim. */
import Stripe from "stripe";

/** The service said no, and would say it again. */
export class Refused extends Error {
  constructor(readonly code: string, detail: string) {
    super(detail);
  }
}

const slept = (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000));

/** Waits as long as it is asked to, repeats what may have been lost, and does nothing twice. */
export class Client {
  timeout = 10_000;

  constructor(private url: string, private key: string, private sleep: (seconds: number) => Promise<void> = slept) {}

  async call(method: string, path: string, body?: unknown): Promise<any> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.key}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (method === "POST") headers["Idempotency-Key"] = crypto.randomUUID();
    for (let wait = 1; wait <= 16; wait *= 2) {
      const signal = AbortSignal.timeout(this.timeout);
      let asked = wait;
      try {
        const reply = await fetch(this.url + path, { method, headers, signal, body: JSON.stringify(body) });
        if (reply.status < 500) {
          const read = await reply.json();
          if (reply.ok) return read;
          if (read.code !== "rate_limited") throw new Refused(read.code, read.detail);
        }
        asked = Number(reply.headers.get("retry-after") ?? wait);
      } catch (error) {
        if (error instanceof Refused) throw error; // else nobody knows whether it was done: once more, with its key
      }
      await this.sleep(asked);
    }
    throw new Error(`${method} ${path}: no answer after 5 attempts`);
  }

  /** All items of a list, page by page. */
  async *each(path: string): AsyncGenerator<any> {
    for (let cursor = "", more = true; more; ) {
      const page = await this.call("GET", `${path}?limit=100${cursor}`);
      yield* page.data;
      more = page.has_more;
      cursor = `&cursor=${page.next_cursor}`;
    }
  }
}

/** Whether a webhook is from the service: it signs as Stripe does. */
export function verified(body: string, signature: string, secret: string): boolean {
  try {
    return Stripe.webhooks.signature.verifyHeader(body, signature, secret, 300);
  } catch {
    return false;
  }
}
