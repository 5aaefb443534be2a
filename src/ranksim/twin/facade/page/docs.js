// The forms of /docs and /graphql. Keys stand in this page's memory alone; all text is shown as text.
"use strict";
(() => {
  const SHOWN = 200000; // characters of an answer
  const KEPT = 200; // ids that are offered again
  const $ = (id) => document.getElementById(id);
  const token = new URLSearchParams(location.search).get("token") || "";
  const ids = new Set();

  function add(parent, tag, kind, text) {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    made.textContent = text || "";
    parent.append(made);
    return made;
  }

  // Offers the ids of an answer where a form asks for one.
  function remember(value, name) {
    if (Array.isArray(value)) value.forEach((one) => remember(one, name));
    else if (value && typeof value === "object") Object.entries(value).forEach(([key, one]) => remember(one, key));
    else if (typeof value === "string" && /(^id|_id|Id)$/.test(name)) ids.add(value);
  }

  function offer() {
    const list = $("ids");
    if (!list) return;
    [...ids].slice(0, -KEPT).forEach((one) => ids.delete(one));
    list.replaceChildren();
    for (const one of ids) add(list, "option", "", one);
  }

  // What a form asks for: its fields put into the path, the query, the headers and the body.
  function requested(form) {
    const query = new URLSearchParams(), headers = {};
    let path = form.dataset.path, body;
    for (const field of form.querySelectorAll("[data-in]")) {
      const { name, value } = field, place = field.dataset.in;
      if (place === "path") path = path.replace(`{${name}}`, () => encodeURIComponent(value));
      else if (place === "body") body = value.trim() || undefined;
      else if (value && place === "query") query.append(name, value);
      else if (value) headers[name] = value;
    }
    if (form.id === "graphql") {
      const variables = $("variables").value.trim();
      body = JSON.stringify({ query: $("query").value, variables: variables ? JSON.parse(variables) : null });
    }
    const own = form.dataset.whose === "token";
    const secret = own ? token : $("key").value.trim();
    if (secret) headers.Authorization = `Bearer ${secret}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const asked = query.toString();
    const address = (own ? "" : $("environment").value) + path + (asked ? `?${asked}` : "");
    return [address, { method: form.dataset.method, headers, body, cache: "no-store", credentials: "omit" }];
  }

  const isText = (kind) => /json|^text\//.test(kind);

  // Shows a body as it comes, as an answer may be late or without end.
  async function read(answer, node) {
    const kind = answer.headers.get("content-type") || "";
    const reader = answer.body.getReader(), decoder = new TextDecoder();
    let text = "", size = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (!isText(kind) || text.length > SHOWN) continue;
      text += decoder.decode(value, { stream: true });
      node.textContent = text.slice(0, SHOWN);
    }
    if (!isText(kind)) node.textContent = size ? `${size.toLocaleString("en-US")} bytes of ${kind}` : "";
    else if (text.length > SHOWN) node.textContent = `${text.slice(0, SHOWN)}\n… the rest is not shown`;
    else if (/json/.test(kind) && text) {
      const found = JSON.parse(text);
      node.textContent = JSON.stringify(found, null, 2);
      remember(found, "");
      offer();
    }
  }

  async function send(form) {
    const button = form.querySelector("button:not([type])");
    if (form.stop) {
      form.stop.abort();
      return;
    }
    const before = form.querySelector(".answer");
    if (before) before.remove();
    const shown = add(form, "div", "answer", ""), status = add(shown, "p", "", "…");
    status.setAttribute("role", "status");
    form.stop = new AbortController();
    button.textContent = "Stop";
    const began = performance.now();
    try {
      const [address, wanted] = requested(form);
      const answer = await fetch(address, { ...wanted, signal: form.stop.signal });
      status.className = answer.ok ? "good" : "bad";
      status.textContent = `${wanted.method} ${address.split("?")[0]} → ${answer.status}, ${Math.round(performance.now() - began)} ms`;
      const said = [...answer.headers].filter(([name]) => !name.startsWith("access-control-")); // for other pages
      add(shown, "pre", "headers", said.map(([name, text]) => `${name}: ${text}`).join("\n"));
      await read(answer, add(shown, "pre", "body", ""));
    } catch (error) {
      if (error.name === "AbortError") add(shown, "p", "", "stopped");
      else {
        status.className = "bad";
        status.textContent = error.name === "SyntaxError" ? `The variables are not JSON: ${error.message}` : `No answer: ${error.message}`;
      }
    }
    form.stop = null;
    button.textContent = "Send";
  }

  for (const form of document.querySelectorAll("form[data-path]")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(form);
    });
  }
  $("caller").addEventListener("submit", (event) => event.preventDefault());
  if (location.pathname.startsWith("/sandbox")) $("environment").value = "/sandbox";
  if (token && $("unlock")) $("unlock").querySelector("p").textContent = "This is not the token of this deployment.";

  const example = $("example");
  if (example) {
    const fill = () => {
      const chosen = example.selectedOptions[0].dataset;
      $("query").value = chosen.query;
      $("variables").value = chosen.variables;
    };
    example.addEventListener("change", fill);
    fill();
  }
})();
