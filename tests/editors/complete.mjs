// Opens a YAML file in yaml-language-server over stdio, with `length:` misspelt and a key begun at its end, and
// prints as JSON what it completes and what it finds wrong: node complete.mjs SERVER FILE
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , server, file] = process.argv;
const child = spawn("node", [server, "--stdio"]);
const answers = new Map();
let numbered = 0;
let unread = Buffer.alloc(0);
let found;
const judged = new Promise((resolve) => { found = resolve; });

function send(message) {
  const text = JSON.stringify({ jsonrpc: "2.0", ...message });
  child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}

function ask(method, params) {
  return new Promise((resolve) => {
    answers.set(++numbered, resolve);
    send({ id: numbered, method, params });
  });
}

function hear(message) {
  if (message.id !== undefined && message.method) {
    const settings = message.method === "workspace/configuration" ? message.params.items.map(() => ({})) : null;
    send({ id: message.id, result: settings });
  } else if (message.id !== undefined) {
    answers.get(message.id)?.(message.result);
  } else if (message.method === "textDocument/publishDiagnostics") {
    const said = message.params.diagnostics.map((one) => one.message);
    if (said.some((one) => one.includes("lenght"))) found(said);
  }
}

child.stdout.on("data", (data) => {
  unread = Buffer.concat([unread, data]);
  for (;;) {
    const head = /Content-Length: (\d+)\r\n\r\n/.exec(unread.toString("latin1"));
    const start = head ? head.index + head[0].length : 0;
    if (!head || unread.length < start + Number(head[1])) return;
    const message = unread.subarray(start, start + Number(head[1])).toString();
    unread = unread.subarray(start + Number(head[1]));
    hear(JSON.parse(message));
  }
});

const uri = pathToFileURL(file).href;
const text = `${readFileSync(file, "utf8").replace("length: 7d", "lenght: 7d")}\nrepl`;
const lines = text.split("\n");
await ask("initialize", {
  processId: process.pid, rootUri: null, workspaceFolders: null,
  capabilities: { textDocument: { completion: { completionItem: { snippetSupport: true } } } },
});
send({ method: "initialized", params: {} });
const yaml = { validate: true, completion: true, schemaStore: { enable: false } };
send({ method: "workspace/didChangeConfiguration", params: { settings: { yaml } } });
send({ method: "textDocument/didOpen", params: { textDocument: { uri, languageId: "yaml", version: 1, text } } });
const errors = await judged;
const position = { line: lines.length - 1, character: 4 };
const offered = await ask("textDocument/completion", { textDocument: { uri }, position });
console.log(JSON.stringify({ keys: (offered.items ?? offered).map((one) => one.label), errors }));
child.kill();
process.exit(0);
