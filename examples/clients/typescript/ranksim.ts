import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const command = process.env.RANKSIM_SERVE ?? "ranksim serve";

/** A fake of its own for a file of tests; time stands still until a test moves it. */
export async function serve(...options: string[]) {
  const [program, ...words] = [...command.split(" "), "--json", "--port", "0", "--clock", "manual", "--log", "none"];
  const child = spawn(program, [...words, ...options], { stdio: ["ignore", "pipe", "inherit"] });
  const line = await new Promise<string>((resolve) => createInterface(child.stdout).once("line", resolve));
  const { base_url: url, key, sandbox_key: sandboxKey, control_token: token } = JSON.parse(line);
  const control = async (method: string, path: string, body?: unknown) => {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const reply = await fetch(`${url}/_ranksim${path}`, { method, headers, body: JSON.stringify(body) });
    if (!reply.ok) throw new Error(await reply.text());
    return reply.json();
  };
  const sleep = (seconds: number): Promise<void> => control("POST", "/clock/advance", { by: `${seconds}s` });
  return { url, key, sandboxKey, control, sleep, stop: () => void child.kill() };
}
