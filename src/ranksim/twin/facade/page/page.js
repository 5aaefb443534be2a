// The live page of a fake deployment. What it shows is a state (/_ranksim/overview) and a list of events
// (/_ranksim/events), live or recorded. All text is put into the page as text, never as markup.
"use strict";
(() => {
  const KEPT = 10000; // events in the list
  const MOST_ENDED = 50; // jobs that ended, in an overview
  const MOST = 400; // events a second that are asked for
  const REFRESH = 1000; // ms between two readings of the state
  const CHECKS = ["", "capability", "subscription", "cost ceiling", "quota", "slots", "cooldown"];
  const NOT_REPEATED = new Set(["host", "content-length", "connection", "accept-encoding", "user-agent", "origin",
    "referer", "transfer-encoding", "accept"]);

  const token = controlToken;
  const $ = (id) => document.getElementById(id);
  const body = (id) => $(id).querySelector(".body");

  let state = null; // the last overview
  let base = 0, read = 0, rate = 0; // the clock: ms at `read` of performance.now(), and how fast it runs
  let run = null, chosen = 0, moves = 0; // a run that is shown, the instant in µs, how often it was moved

  // Elements

  function el(tag, properties, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  // Keeps the children of a parent equal to items: what has the same key stays, so that focus does.
  function sync(parent, items, key, make, update) {
    const names = new Set(items.map((item) => String(key(item))));
    const old = new Map();
    for (const child of [...parent.children]) {
      if (names.has(child.dataset.key)) old.set(child.dataset.key, child);
      else child.remove();
    }
    let place = parent.firstChild;
    for (const item of items) {
      const name = String(key(item));
      let child = old.get(name);
      if (!child) {
        child = make(item);
        child.dataset.key = name;
      }
      if (child === place) place = place.nextSibling;
      else parent.insertBefore(child, place);
      if (update) update(child, item); // in its place, where it has a width
    }
  }

  // Numbers and time

  const count = (number) => number.toLocaleString("en-US");
  const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
  const usd = (text) => Number(text).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const ms = (iso) => Date.parse(iso);

  // As the terminal and YAML write durations: 4m30s, 2d6h.
  function span(milliseconds) {
    const seconds = Math.max(0, Math.round(milliseconds / 1000));
    if (seconds < 60) return `${seconds}s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)}m${seconds % 60}s`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)}h${Math.floor((seconds % 3600) / 60)}m`;
    return `${Math.floor(seconds / 86400)}d${Math.floor((seconds % 86400) / 3600)}h`;
  }

  const now = () => base + (performance.now() - read) * rate;

  function rateOf(clock) {
    if (clock === "real") return 1;
    const [over, under] = (clock.startsWith("scaled:") ? clock.slice(7) : "0").split("/");
    return Number(over) / Number(under || 1);
  }

  function written(iso) { // an instant of the list: the day where it is another than today's
    const day = iso.slice(0, 10), today = new Date(now()).toISOString().slice(0, 10);
    const time = (iso.slice(11, 23) + (iso.length < 22 ? ".000" : "")).replace("Z", "").slice(0, 12);
    return day === today ? time : `${day.slice(5)} ${time.slice(0, 5)}`;
  }

  const until = (iso, words) => el("span", { "data-until": iso, "data-words": words || "" });

  function tick() {
    if (!state) return;
    const at = now();
    const due = state.next_due;
    if (!run) say($("now"), new Date(at).toISOString().slice(0, 19).replace("T", " ") + " UTC");
    if (!run) say($("due"), due ? `next: ${due.what === "delivery" ? "attempt" : due.id} in ${span(ms(due.at) - at)}` : "nothing due");
    for (const node of document.querySelectorAll("[data-until]")) {
      const left = ms(node.dataset.until) - at;
      say(node, node.dataset.words + (left > 0 ? span(left) : "now"));
    }
  }

  // Asking

  const headers = token ? { Authorization: `Bearer ${token}` } : {};

  async function ask(method, path, sent, authorization) {
    const more = sent === undefined ? {} : { body: JSON.stringify(sent) };
    const json = sent === undefined ? {} : { "Content-Type": "application/json" };
    const own = authorization ? { Authorization: authorization } : headers;
    const answer = await fetch(path, { method, headers: { ...own, ...json }, ...more, cache: "no-store" });
    const text = await answer.text();
    let found = null;
    try { found = text ? JSON.parse(text) : null; } catch { found = text; }
    if (!answer.ok) {
      const error = new Error((found && found.detail) || `${method} ${path} was answered ${answer.status}`);
      error.status = answer.status;
      throw error;
    }
    return found;
  }

  const control = (method, path, sent) => ask(method, `/_ranksim${path}`, sent);

  const wideKey = (account) => (account.keys.find((one) => !one.domain_id) || account.keys[0] || { key: "" }).key;

  // Calls the API as an account does.
  function asCustomer(account, method, path, sent) {
    return ask(method, (account.environment === "sandbox" ? "/sandbox" : "") + path, sent, `Bearer ${wideKey(account)}`);
  }

  let fading = 0;

  function tell(text, bad) {
    say($("said"), text);
    $("said").className = bad ? "bad" : "";
    clearTimeout(fading);
    if (!bad) fading = setTimeout(() => $("said").classList.add("faded"), 6000);
  }

  // Runs what a control does, says what came of it, and reads the state anew.
  async function act(words, work) {
    tell(`${words} …`);
    try {
      const said = await work();
      tell(typeof said === "string" ? said : `${words}: done`);
    } catch (error) {
      tell(`${words}: ${error.message}`, true);
    }
    await refresh();
  }

  function button(words, label, work, more) {
    return el("button", { "aria-label": label, "data-live": true, ...more, onclick: () => act(label, work) }, words);
  }

  // What cannot be undone wants a second press.
  function sure(node, words, work) {
    const before = node.textContent;
    node.addEventListener("click", () => {
      if (node.dataset.asked) {
        delete node.dataset.asked;
        node.textContent = before;
        act(words, work);
        return;
      }
      node.dataset.asked = "yes";
      node.textContent = node.dataset.really || "Really?";
      setTimeout(() => { delete node.dataset.asked; node.textContent = before; }, 4000);
    });
    return node;
  }

  async function advance(wanted, words) {
    const done = await control("POST", "/clock/advance", wanted);
    if (!done.settled) return `${words}: not settled, ${plural(done.waiting.length, "attempt")} without an answer; advance again`;
    return `${words}: it is ${done.now.slice(0, 19).replace("T", " ")}, ${plural(done.happened.length, "milestone")} on the way`;
  }

  // The list of calls and effects: the newest first, and only the rows in sight exist

  const list = $("list"), space = $("space"), box = $("rows"), detail = $("detail");
  const log = []; // events, oldest first
  let shown = []; // lines of those that pass the filters: {event, events}, where equal calls in a row are one line
  let rows = []; // row elements
  let open = null, active = null, extra = 0, paused = false, drawing = false, skipped = 0;
  const texts = new WeakMap(); // what is searched of an event
  const apart = new WeakSet(); // events that were taken out of their line

  const rowHeight = () => parseInt(getComputedStyle(document.documentElement).getPropertyValue("--row"), 10);
  let height = rowHeight();

  // a GraphQL request is answered 200 whatever its fields were refused for
  const failed = (event) => event.status === null || event.status >= 400 || event.dropped !== null || (event.code !== null && event.outcome !== "dry_run");
  const refused = (event) => event.what === "call" && (failed(event) || event.faults.length > 0);

  const asked = (event) => (event.query ? `${event.path}?${event.query}` : event.path);

  function why(event) {
    const parts = event.dropped ? [event.status === null ? "dropped" : event.dropped === "during" ? "dropped amid it" : "dropped after it"] : [];
    parts.push(...event.faults);
    if (event.outcome === "limited") parts.push(`window ${event.rate_class}`);
    else if (event.check) parts.push(`${event.check} ${CHECKS[event.check]}`);
    else if (event.code) parts.push(event.code);
    else if (event.outcome !== "ok" && event.outcome !== "granted" && event.outcome !== "dropped") parts.push(event.outcome.replace("_", " "));
    return parts.join(" · ");
  }

  const LEFT_OUT = new Set(["seq", "at", "what"]);
  const isNumber = ([name]) => /_id$|^number$|^(attempt|delivery|job|endpoint|event|account|key|domain)$/.test(name);

  // What came about before which numbers it has.
  function summary(event) {
    const fields = Object.entries(event).filter(([name, value]) => !LEFT_OUT.has(name) && value !== null && value !== "");
    return [...fields.filter((one) => !isNumber(one)), ...fields.filter(isNumber)]
      .map(([name, value]) => `${name.replace(/_id$/, "").replaceAll("_", " ")} ${value}`).join(" · ");
  }

  function found(event) {
    if (event.what === "gap" || event.what.startsWith("world.")) return true;
    if (event.what !== "call" && !$("effects").checked) return false;
    if ($("refused").checked && !refused(event) && !/refused|limited|failed|disabled/.test(event.what)) return false;
    const wanted = $("find").value.trim().toLowerCase();
    if (!wanted) return true;
    if (!texts.has(event)) {
      texts.set(event, (event.what === "call"
        ? [event.method, asked(event), event.operations, event.status, event.code, event.key, event.account_id, event.faults, why(event), `#${event.number}`].join(" ")
        : `${event.what} ${summary(event)}`).toLowerCase());
    }
    return texts.get(event).includes(wanted);
  }

  function take(events) {
    if (!events.length) return;
    log.push(...events);
    if (log.length > KEPT) log.splice(0, log.length - KEPT);
    if (paused) {
      skipped += events.length;
      $("held").hidden = false;
      say($("held"), `paused; ${plural(skipped, "event")} since`);
      return;
    }
    const before = shown.length;
    events.filter(found).forEach(push);
    const more = shown.length - before;
    const anchored = list.scrollTop > 0 || open;
    const kept = log[0];
    let gone = 0;
    while (gone < shown.length && shown[gone].event.seq < kept.seq) gone += 1;
    if (gone) shown.splice(0, gone);
    if (open && open.event.seq < kept.seq) fold();
    if (anchored && more) {
      size();
      list.scrollTop += more * height;
    }
    draw();
  }

  // An event as a line of its own, or in the line above it where it says the same; not in one that is looked at.
  function push(event) {
    const line = shown.at(-1);
    if (line && line !== open && event.what === "call" && !apart.has(event) && same(line.event, event)) {
      line.event = event;
      line.events.push(event);
    } else shown.push({ event, events: [event] });
  }

  const ALIKE = ["what", "method", "path", "query", "status", "code", "check", "outcome", "dropped", "key", "account_id"];

  function same(one, other) {
    return !apart.has(one) && ALIKE.every((name) => one[name] === other[name])
      && one.operations.join() === other.operations.join() && one.faults.join() === other.faults.join();
  }

  function filter() {
    const [opened, chosen] = [open, active].map((line) => line && line.event);
    const line = (event) => (event && shown.find((one) => one.events.includes(event))) || null;
    shown = [];
    log.filter(found).forEach(push);
    active = line(chosen);
    open = line(opened);
    if (!open) fold();
    draw();
  }

  function clear() {
    log.length = 0;
    fold();
    active = null;
    filter();
  }

  const index = (line) => shown.length - 1 - shown.lastIndexOf(line);

  function size() {
    const needed = `${shown.length * height + (open ? extra : 0)}px`;
    space.style.height = needed;
    list.style.setProperty("--needed", needed);
  }

  function draw() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
      drawing = false;
      showFirst();
      place();
    });
  }

  function place() {
    size();
    const opened = open ? index(open) : Infinity;
    const top = list.scrollTop, bottom = top + list.clientHeight;
    const at = (row) => row * height + (row > opened ? extra : 0);
    let first = Math.floor(top / height);
    if (first > opened) first = Math.max(opened, Math.floor((top - extra) / height));
    first = Math.max(0, first - 4);
    const wanted = [];
    for (let row = first; row < shown.length && at(row) < bottom + 4 * height; row += 1) wanted.push(row);
    while (rows.length < wanted.length) rows.push(makeRow());
    while (rows.length > wanted.length) rows.pop().remove();
    wanted.forEach((row, number) => {
      const line = shown[shown.length - 1 - row], node = rows[number];
      node.style.transform = `translateY(${at(row)}px)`;
      if (node.event !== line.event || node.line !== line) fill(node, line);
      node.setAttribute("aria-selected", String(line === active));
      node.setAttribute("aria-posinset", String(row + 1));
      node.setAttribute("aria-setsize", String(shown.length));
    });
    detail.hidden = !open;
    if (open) detail.style.transform = `translateY(${(opened + 1) * height}px)`;
    const there = active && rows.find((node) => node.line === active);
    if (there) box.setAttribute("aria-activedescendant", there.id);
    else box.removeAttribute("aria-activedescendant");
  }

  const PARTS = ["at", "method", "path", "status", "why", "key", "ms"];

  function makeRow() {
    const node = el("div", { class: "row", role: "option" }, ...PARTS.map((part) => el("span", { class: part })));
    node.addEventListener("click", () => { active = node.line; toggle(node.line); });
    box.append(node);
    return node;
  }

  function fill(node, line) {
    const { event, events } = line;
    node.event = event;
    node.line = line;
    node.id = `event-${event.seq}`;
    let texts;
    if (event.what === "call") {
      const status = event.status === null ? "–" : String(event.status);
      const path = event.surface === "graphql" ? `${asked(event)} ${event.operations.join(", ")}` : asked(event);
      const often = events.length > 1 ? `× ${count(events.length)}` : `${event.ms.toFixed(1)} ms`;
      texts = [written(event.at), event.method, path, status, why(event), event.key || "", often];
      node.className = "row";
      const good = !failed(event);
      node.children[3].className = `status ${good ? "good" : "bad"}`;
      node.children[4].className = `why ${event.faults.length ? "warn" : good ? "faint" : "bad"}`;
    } else if (event.what === "gap") {
      texts = [`${plural(event.missed, "event")} not shown: more than ${MOST} a second, or no longer remembered`];
      node.className = "row gap";
    } else {
      texts = [written(event.at), event.what, summary(event)];
      node.className = "row effect";
    }
    PARTS.forEach((part, number) => {
      say(node.children[number], texts[number] || "");
      node.children[number].hidden = texts[number] === undefined;
    });
    node.title = event.what === "call" ? `${event.operations.join(", ")}: ${event.method} ${asked(event)} ${why(event)}` : summary(event);
  }

  function toggle(line) {
    if (line.event.what === "gap") return;
    if (open === line) fold();
    else unfold(line);
    draw();
  }

  function fold() {
    open = null;
    extra = 0;
    detail.replaceChildren();
  }

  // Makes a line of each call that one line stands for.
  function spread(line) {
    line.events.forEach((event) => apart.add(event));
    fold();
    filter();
  }

  function unfold(line) {
    const { event, events } = line;
    open = line;
    detail.replaceChildren(el("p", { class: "faint" }, "reading the exchange …"));
    extra = 40;
    if (event.what !== "call") detail.replaceChildren(el("pre", {}, pretty(event)));
    else if (event.number === null) detail.replaceChildren(el("p", {}, `Dropped before it had an effect, by ${event.faults.join(", ")}; it is in no journal.`));
    else {
      control("GET", `/requests/${event.number}`)
        .then((one) => exchange(event, one), (error) => [el("p", { class: "bad" }, error.message)])
        .then((nodes) => {
          const each = el("button", { onclick: () => spread(line) }, "Show each");
          const alike = el("p", {}, `The last of ${count(events.length)} calls alike since ${written(events[0].at)}. `, each);
          if (open === line) detail.replaceChildren(...(events.length > 1 ? [alike] : []), ...nodes);
        });
    }
  }

  new ResizeObserver(() => {
    const tall = detail.hidden ? extra : detail.offsetHeight;
    if (tall !== extra) {
      extra = tall;
      draw();
    }
  }).observe(detail);

  const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

  function reason(event, one) {
    const said = one.response && typeof one.response === "object" ? one.response : {};
    const words = [];
    if (event.faults.length) words.push(`Befallen by ${event.faults.join(", ")}.`);
    if (event.dropped) words.push("The connection was dropped instead of sending this answer; its effect stands.");
    if (event.outcome === "limited") words.push(`Refused by the rate window of class ${event.rate_class}.`);
    else if (event.check) words.push(`Refused by check ${event.check} of 6, ${CHECKS[event.check]}.`);
    else if (event.outcome === "replayed") words.push("Replayed from its Idempotency-Key.");
    if (said.detail) words.push(said.detail);
    if (said.remedy) words.push(said.remedy);
    return words.join(" ");
  }

  function block(title, lines) {
    return lines ? [el("h3", {}, title), el("pre", {}, lines)] : [];
  }

  function exchange(event, one) {
    const fields = (named) => Object.entries(named).map(([name, text]) => `${name}: ${text}`).join("\n");
    const query = new URLSearchParams(one.query).toString();
    const line = `${one.method} ${one.path}${query ? "?" + query : ""}`;
    const repeat = curl(one, query);
    const copy = el("button", { onclick: () => copied(repeat) }, "Copy curl");
    const then = run && run.states ? el("button", { onclick: () => move((ms(event.at) + 1) * 1000) }, "Show the world then") : null;
    return [
      el("p", { class: "why" }, `${line} → ${one.status}${event.code ? " " + event.code : ""}`),
      el("p", {}, reason(event, one)),
      el("p", { class: "faint" }, `exchange ${one.id} · ${one.at} · ${one.environment} · ${one.operations.join(", ")} · ${one.account_id || "nobody's"} · ${event.ms} ms`),
      ...block("answer", one.response === null ? "" : pretty(one.response)),
      ...block("request", one.body === null ? "" : pretty(one.body)),
      ...(run ? [el("p", {}, then)] : [el("h3", {}, "again ", copy), el("pre", { class: "curl" }, repeat)]),
      el("details", {}, el("summary", {}, "Headers"), ...block("of the answer", fields(one.response_headers)), ...block("of the request", fields(one.headers))),
    ];
  }

  // Text of callers as one word of a shell: a pasted control character could end the line that it stands in.
  function quoted(text) {
    if (/^[A-Za-z]+$/.test(text)) return text;
    if (!/[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(text)) return `'${text.replaceAll("'", "'\\''")}'`;
    const escaped = text.replace(/[\\']/g, "\\$&").replace(/[\x00-\x1f\x7f]/g, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`);
    return `$'${escaped.replace(/[\x80-\x9f]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`)}'`;
  }

  // --globoff and --data-raw: neither brackets in a path nor an @ that a body begins with mean anything to curl.
  function curl(one, query) {
    const path = one.path.startsWith("/") ? one.path : `/${one.path}`; // or what comes after "@" would be the host
    const parts = ["curl", "--globoff", ...(one.method === "GET" ? [] : ["-X", quoted(one.method)]), quoted(location.origin + path + (query ? "?" + query : ""))];
    for (const [name, text] of Object.entries(one.headers)) {
      if (!NOT_REPEATED.has(name.toLowerCase())) parts.push("-H", quoted(`${name}: ${text}`));
    }
    if (one.body !== null) parts.push("--data-raw", quoted(typeof one.body === "string" ? one.body : JSON.stringify(one.body)));
    return parts.join(" ");
  }

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      tell("copied");
    } catch {
      tell("the browser does not let this page copy; mark the text", true);
    }
  }

  list.addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", () => { height = rowHeight(); draw(); });

  box.addEventListener("keydown", (pressed) => {
    if (!shown.length) return;
    const here = active && shown.includes(active) ? index(active) : -1;
    const steps = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: shown.length - 1 };
    if (pressed.key in steps) {
      const row = Math.min(shown.length - 1, Math.max(0, steps[pressed.key]));
      active = shown[shown.length - 1 - row];
      const top = row * height + (open && row > index(open) ? extra : 0);
      if (top < list.scrollTop) list.scrollTop = top;
      else if (top + height > list.scrollTop + list.clientHeight) list.scrollTop = top + height - list.clientHeight;
      draw();
    } else if ((pressed.key === "Enter" || pressed.key === " ") && here >= 0) toggle(active);
    else if (pressed.key === "Escape" && open) { fold(); draw(); }
    else return;
    pressed.preventDefault();
  });

  for (const id of ["effects", "refused"]) $(id).addEventListener("change", filter);
  $("find").addEventListener("input", filter);
  $("pause").addEventListener("click", () => {
    paused = !paused;
    skipped = 0;
    $("pause").setAttribute("aria-pressed", String(paused));
    say($("pause"), paused ? "Go on" : "Pause");
    $("held").hidden = true;
    filter();
  });

  // Accounts

  function bar(name) {
    const bars = el("span", { class: "bar", role: "meter", "aria-label": name, "aria-valuemin": 0 }, el("i"), el("i"));
    return el("div", { class: "meter" }, el("span", { title: name }, name), bars, el("span", {}, el("span"), " ", el("span", { class: "faint" })));
  }

  // Draws `used` and, beside it, `more` of `limit`, and when it resets; a limit below 0 is none.
  function gauge(node, used, more, limit, words, resets, period) {
    const [, bars, { children: [text, then] }] = node.children, whole = limit > 0 ? limit : 1;
    bars.children[0].style.width = `${limit < 0 ? 0 : Math.min(100, (100 * used) / whole)}%`;
    bars.children[1].style.width = `${limit < 0 ? 0 : Math.min(100, (100 * more) / whole)}%`;
    bars.classList.toggle("full", limit >= 0 && used + more >= limit);
    bars.setAttribute("aria-valuemax", limit);
    bars.setAttribute("aria-valuenow", used + more);
    bars.setAttribute("aria-valuetext", words);
    say(text, words);
    if (then.dataset.resets === (resets || "")) return;
    then.dataset.resets = resets || "";
    then.title = resets ? `${period || ""} resets ${resets.slice(0, 19).replace("T", " ")}`.trim() : "";
    then.replaceChildren(...(resets ? [until(resets, "↻ ")] : []));
  }

  function select(label, choices, work) {
    const node = el("select", { "aria-label": label, disabled: Boolean(run) }, ...choices.map((one) => el("option", { value: one }, one.replaceAll("_", " "))));
    node.addEventListener("change", () => act(`${label}: ${node.value}`, () => work(node.value)));
    return node;
  }

  const STATUSES = ["active", "trialing", "past_due", "unpaid", "canceled"];

  function makeAccount(account) {
    const change = (sent) => control("PATCH", `/accounts/${encodeURIComponent(account.id)}`, sent);
    const parts = {
      name: el("span", { class: "name" }),
      id: el("span", { class: "faint" }, account.id),
      plan: select(`Plan of ${account.name}`, state.plans, (plan) => change({ plan })),
      status: select(`Status of ${account.name}`, STATUSES, (status) => change({ status })),
      slots: bar("slots"), cost: bar("provider cost"), quotas: el("div"), cooldowns: el("div"), keys: el("div"),
    };
    const node = el("div", { class: "account" },
      el("div", { class: "title" }, parts.name, parts.id), el("div", { class: "title" }, parts.plan, parts.status),
      parts.keys, parts.slots, parts.cost, parts.quotas, parts.cooldowns);
    node.parts = parts;
    return node;
  }

  function choose(node, value) {
    if (![...node.options].some((one) => one.value === value)) node.append(el("option", { value }, value));
    if (document.activeElement !== node) node.value = value;
  }

  function showAccount(node, account) {
    const { parts } = node, { slots, cost } = account;
    say(parts.name, `${account.name} · ${account.environment}`);
    choose(parts.plan, account.plan);
    choose(parts.status, account.status);
    gauge(parts.slots, slots.active, slots.held, slots.limit, `${count(slots.active)}${slots.held ? ` + ${count(slots.held)} held` : ""} of ${count(slots.limit)}`,
      slots.held ? slots.resets_at : null);
    gauge(parts.cost, Number(cost.settled), Number(cost.spent) - Number(cost.settled), Number(cost.ceiling), `${usd(cost.spent)} of ${usd(cost.ceiling)} USD`, cost.resets_at);
    sync(parts.quotas, account.quotas, (one) => one.metric, (one) => bar(one.metric.replaceAll("_", " ")), (line, one) =>
      gauge(line, one.used, 0, one.limit, one.limit < 0 ? `${count(one.used)}, no limit` : `${count(one.used)} of ${count(one.limit)}`, one.resets_at, `a ${one.period};`));
    sync(parts.cooldowns, account.cooldowns, (one) => `${one.domain_id} ${one.spend} ${one.free_at}`, (one) =>
      el("div", { class: "line cooldown" }, el("span", { class: "grow" }, el("span", { class: "warn" }, "cooldown "), `${one.spend.replaceAll("_", " ")} · ${one.host || one.domain_id}`), until(one.free_at, "free in ")));
    sync(parts.keys, account.keys, (one) => one.key, makeKey, showKey);
  }

  function makeKey(key) {
    const windows = el("div");
    const node = el("div", { class: "api-key" }, el("div", {}, el("code", {}, key.key), " ", el("span", { class: "faint" }, [key.name, key.domain_id].filter(Boolean).join(" · "))), windows);
    node.windows = windows;
    return node;
  }

  function showKey(node, key) {
    const resets = (one) => new Date(base + one.resets_in_micros / 1000).toISOString();
    sync(node.windows, key.windows, (one) => one.class, (one) => bar(`${one.class} / ${one.seconds} s`), (line, one) =>
      gauge(line, one.limit - one.remaining, 0, one.limit, `${count(one.remaining)} of ${count(one.limit)} left`,
        one.resets_in_micros > 0 && state.traffic_clock === "same" ? resets(one) : null));
  }

  // Jobs

  const ENDED = { done: "good", failed: "bad" };

  function makeJob(job) {
    const id = encodeURIComponent(job.id);
    const finish = (outcome, words) => button(words, `${words} ${job.id}`, () =>
      control("POST", `/jobs/${id}/finish`, outcome === "failed" ? { outcome, error: "failed by hand" } : { outcome }));
    const node = el("div", { class: "line job" },
      el("span", { class: "status" }), el("span", { class: "grow" }, `${job.kind.replaceAll("_", " ")} · ${job.host || job.domain_id}`, el("span", { class: "faint" }, ` ${job.id}`)),
      el("span", { class: "when" }),
      el("span", { class: "buttons" }, finish("done", "Finish"), finish("failed", "Fail"),
        button("Until done", `Until done ${job.id}`, () => advance({ until: { job: job.id } }, job.id))));
    return node;
  }

  function showJob(node, job) {
    const [status, , when, buttons] = node.children;
    status.className = `status ${ENDED[job.status] || ""}`;
    say(status, job.status);
    buttons.hidden = job.finished_at !== null;
    const said = job.finished_at ? `${written(job.finished_at)}${job.error_detail ? " · " + job.error_detail : ""}` : job.due || "";
    if (when.dataset.said !== said) {
      when.dataset.said = said;
      when.replaceChildren(job.finished_at || !job.due ? said : until(job.due, "ends in "));
    }
  }

  // Webhooks

  function makeEndpoint(endpoint) {
    const call = async (method, path, sent) => {
      const account = state.accounts.find((one) => one.id === endpoint.account_id);
      return asCustomer(account, method, `/v1/webhooks/${encodeURIComponent(endpoint.id)}${path}`, sent);
    };
    const parts = {
      state: el("span"), failures: bar("failures in a row"), line: document.createElementNS(SVG, "svg"), attempts: el("div", { class: "attempts" }), note: el("p", { class: "faint" }),
    };
    parts.line.setAttribute("class", "timeline");
    parts.line.setAttribute("role", "img");
    const node = el("div", { class: "endpoint" },
      el("div", { class: "title" }, el("code", { class: "url" }, endpoint.url), parts.state, el("span", { class: "buttons" },
        button("Enable", `Enable ${endpoint.id}`, () => call("PATCH", "", { enabled: true })),
        button("Send test", `Send test to ${endpoint.id}`, async () =>
          `test event ${(await call("POST", "/test")).data.event_id} for ${endpoint.id}`))),
      el("div", { class: "faint" }, `${endpoint.id} · ${endpoint.account_id} · ${endpoint.event_types.join(", ") || "all events"}${endpoint.domain_id ? " · " + endpoint.domain_id : ""}`),
      parts.failures, parts.line, parts.note, parts.attempts);
    node.parts = parts;
    return node;
  }

  const showWebhooks = () => sync(body("webhooks"), state.endpoints, (one) => one.id, makeEndpoint, showEndpoint);

  function showEndpoint(node, endpoint) {
    const { parts } = node;
    say(parts.state, endpoint.enabled ? "enabled" : `disabled: ${endpoint.disabled_reason}`);
    parts.state.className = endpoint.enabled ? "good" : "bad";
    parts.state.nextElementSibling.firstElementChild.hidden = endpoint.enabled;
    gauge(parts.failures, endpoint.failures, 0, state.disable_after, `${endpoint.failures} of ${state.disable_after}`);
    say(parts.note, endpoint.waiting.length ? `${plural(endpoint.count_waiting, "delivery").replace("ys", "ies")} waiting, the next attempt ${span(ms(endpoint.waiting[0].at) - now())} from now` : "");
    timeline(parts.line, endpoint);
    sync(parts.attempts, endpoint.attempts, (one) => one.id, makeAttempt);
  }

  function makeAttempt(attempt) {
    const good = attempt.status_code !== null && attempt.status_code >= 200 && attempt.status_code < 300;
    const payload = el("div", { class: "payload", hidden: true });
    const show = el("button", { "aria-expanded": "false", "aria-label": `Payload of attempt ${attempt.id}` }, "Payload");
    show.addEventListener("click", async () => {
      payload.hidden = !payload.hidden;
      show.setAttribute("aria-expanded", String(!payload.hidden));
      if (payload.hidden) return;
      try {
        const sent = await control("GET", `/attempts/${attempt.id}/request`);
        const fields = Object.entries(sent.headers).map(([name, text]) => `${name}: ${text}`).join("\n");
        payload.replaceChildren(el("pre", {}, `POST ${sent.url}\n${fields}\n\n${pretty(sent.body)}`));
      } catch (error) {
        payload.replaceChildren(el("p", { class: "bad" }, error.message));
      }
    });
    return el("div", { class: "line attempt" },
      el("span", { class: "faint" }, written(attempt.created_at)),
      el("span", { class: good ? "good" : "bad" }, [attempt.status_code, attempt.error].filter((one) => one !== null).join(" ")),
      el("span", { class: "grow", title: `${attempt.event_type} ${attempt.event_id}` }, `${attempt.attempt}. ${attempt.event_type}`,
        el("span", { class: "faint" }, attempt.next_attempt_at ? `, next ${written(attempt.next_attempt_at).slice(0, 8)}` : "")),
      el("span", { class: "buttons" }, show, button("Resend", `Resend attempt ${attempt.id}`, () => control("POST", `/attempts/${attempt.id}/resend`))),
      payload);
  }

  // Attempts and next retries around now, near times drawn apart: the distance is the logarithm of the time.
  const SVG = "http://www.w3.org/2000/svg";

  function timeline(svg, endpoint) {
    const wide = svg.clientWidth || 320, at = now(), minute = 60000;
    const reach = Math.log1p(86400000 / minute);
    const x = (time) => wide / 2 + (Math.sign(time - at) * Math.min(1, Math.log1p(Math.abs(time - at) / minute) / reach) * (wide - 40)) / 2;
    const drawn = [];
    const add = (tag, properties, text) => {
      const node = document.createElementNS(SVG, tag);
      for (const [name, value] of Object.entries(properties)) node.setAttribute(name, value);
      if (text) node.textContent = text;
      drawn.push(node);
      return node;
    };
    add("line", { x1: 0, x2: wide, y1: 16, y2: 16 });
    add("text", { x: wide, y: 8, "text-anchor": "end" }, "near times drawn apart");
    for (const [words, away] of [["1 h", 3600000], ["5 min", 300000]]) {
      for (const sign of [-1, 1]) add("text", { x: x(at + sign * away), y: 42, "text-anchor": "middle" }, (sign < 0 ? "−" : "+") + words);
    }
    add("line", { class: "now", x1: wide / 2, x2: wide / 2, y1: 4, y2: 28 });
    add("text", { x: wide / 2, y: 42, "text-anchor": "middle" }, "now");
    for (const one of endpoint.attempts) {
      const good = one.status_code !== null && one.status_code >= 200 && one.status_code < 300;
      add("circle", { cx: x(ms(one.created_at)), cy: 16, r: 4, class: good ? "good" : "bad" });
    }
    for (const one of endpoint.waiting) add("circle", { cx: x(ms(one.at)), cy: 16, r: 4 });
    const good = endpoint.attempts.filter((one) => one.status_code !== null && one.status_code < 300).length;
    svg.setAttribute("viewBox", `0 0 ${wide} 46`);
    svg.setAttribute("aria-label", `${good} of the last ${plural(endpoint.attempts.length, "attempt")} acknowledged, ${endpoint.count_waiting} to come`);
    svg.replaceChildren(...drawn);
  }

  // Faults, limits, snapshots

  function showFaults() {
    sync(body("faults"), state.faults, (one) => one.id, (one) =>
      el("div", { class: "line fault" }, el("code", {}, one.id), el("span", { class: "grow" }, faultWords(one)), el("span", { class: "faint" }),
        el("span", { class: "buttons" }, button("Remove", `Remove ${one.id}`, () => control("DELETE", `/faults/${one.id}`)))),
    (node, one) => {
      const did = Object.entries(one.effects).filter(([, number]) => number).map(([name, number]) => `${name} ${count(number)}`);
      say(node.children[2], `${count(one.seen)} seen${did.length ? ": " + did.join(", ") : ""}`);
    });
  }

  function faultWords(one) {
    const share = (value, words) => (value ? [`${words} ${+(100 * value).toFixed(3)} %`] : []);
    const named = (value, words) => (value ? [`${words} ${pretty(value)}`] : []);
    const another = one.status || one.body || one.text || one.retry_after || Object.keys(one.headers).length;
    return [one.operation, ...named(one.path, "at"), ...named(one.key, "key"), ...named(one.latency, "late by"),
      ...(one.latency_after ? [`answered ${pretty(one.latency_after)} after the effect`] : []),
      ...share(one.error_rate, "fails"), ...share(one.drop_before_rate, "dropped before"), ...share(one.drop_after_rate, "dropped after"),
      ...share(one.drop_during_rate, "dropped amid"), ...(another ? share(one.answer_rate, "answered otherwise") : []),
      ...named(one.status, "status"), ...named(one.body, "body"), ...named(one.retry_after, "Retry-After"),
      ...(one.after_effect ? ["after the effect"] : []), ...named(one.bytes_per_second, "bytes a second"), ...(one.delivery ? [one.delivery.replaceAll("_", " ")] : []),
      ...(one.times ? [`${one.times} times`] : []), ...(one.until ? [`until ${written(one.until)}`] : [])].join(" · ");
  }

  function showLimits() {
    sync(body("limits"), Object.entries(state.limits), ([name]) => name, ([name]) => {
      const box = el("input", { type: "checkbox", "data-live": true });
      box.addEventListener("change", () => act(`${name} ${box.checked ? "on" : "off"}`, () => control("PATCH", "/limits", { [name]: box.checked })));
      return el("label", {}, box, ` ${name.replaceAll("_", " ")}`);
    }, (node, [, on]) => { node.firstChild.checked = on; });
  }

  function showSnapshots() {
    sync(body("snapshots"), state.snapshots, (one) => `${one.name} ${one.now}`, (one) => {
      const path = `/snapshots/${encodeURIComponent(one.name)}`;
      const restore = el("button", { "aria-label": `Restore ${one.name}`, "data-live": true, "data-really": "Really restore?" }, "Restore");
      return el("div", { class: "line snapshot" }, el("span", { class: "grow" }, one.name), el("span", { class: "faint" }, one.now.slice(0, 19).replace("T", " ")),
        el("span", { class: "buttons" }, sure(restore, `Restore ${one.name}`, () => control("POST", `${path}/restore`)),
          button("Drop", `Drop ${one.name}`, () => control("DELETE", path))));
    });
  }

  $("fault").addEventListener("submit", (pressed) => {
    pressed.preventDefault();
    const given = new FormData(pressed.target), rule = { operation: given.get("operation") };
    for (const name of ["path", "key", "latency", "latency_after", "body", "retry_after", "delivery", "lasts"]) if (given.get(name)) rule[name] = given.get(name);
    for (const name of ["error_rate", "drop_before_rate", "drop_after_rate", "drop_during_rate", "answer_rate"]) if (given.get(name)) rule[name] = Number(given.get(name)) / 100;
    for (const name of ["times", "status", "bytes_per_second"]) if (given.get(name)) rule[name] = Number(given.get(name));
    if (rule.delivery && rule.operation === "*") rule.operation = "delivery";
    if (pressed.submitter && pressed.submitter.value === "bundle") {
      const { operation, path, key, lasts } = rule;
      act("Add a bundle", async () => `${(await control("POST", `/faults/bundles/${given.get("bundle")}`, { operation, path, key, lasts })).data.map((one) => one.id).join(", ")} are in force`);
      return;
    }
    act("Add a fault", async () => `${(await control("POST", "/faults", rule)).id} is in force`);
  });

  $("snapshot").addEventListener("submit", (pressed) => {
    pressed.preventDefault();
    const name = new FormData(pressed.target).get("name"), fork = pressed.submitter && pressed.submitter.value === "fork";
    act(fork ? `Fork as ${name}` : `Save ${name}`, () => control("POST", fork ? "/fork" : "/snapshots", { name }));
  });

  sure($("reset"), "Begin anew", () => control("POST", "/reset"));

  // An empty world: what to do first

  async function demo() {
    const account = state.accounts[0], call = (...sent) => asCustomer(account, ...sent);
    const made = async (path, sent) => (await call("POST", path, sent)).data.id;
    const domain_id = await made("/v1/domains", { host: `demo-${state.last + 1}.example` });
    const list_id = await made("/v1/keyword-lists", { domain_id, name: "demo" });
    await call("POST", "/v1/keywords", { list_id, keywords: ["rank tracker", "serp api", "keyword research"] });
    await call("POST", "/v1/scans", { domain_id, list_ids: [list_id], engine_devices: ["google/desktop"], geographies: [{ country: "DE" }] });
    for (const kind of ["rank_run", "crawl"]) await call("POST", "/v1/jobs", { kind, domain_id });
    for (let number = 0; number < 5; number += 1) await call("GET", `/v1/domains/${domain_id}`);
    await call("POST", "/graphql", { query: "{ account { plan } }" });
    for (const refused of ["/v1/domains?limit=0", "/v1/jobs/crawl/none"]) await call("GET", refused).catch(() => null);
    return `${account.name} made ${domain_id}, tracks three keywords and started two jobs`;
  }

  $("demo").addEventListener("click", () => act("Send demo traffic", demo));
  $("copy-first").addEventListener("click", () => copied($("first").querySelector("pre").textContent));

  function showFirst() {
    const empty = !run && !log.some((event) => event.what === "call");
    $("first").hidden = !empty;
    list.hidden = empty && !$("effects").checked;
    const account = empty && state && state.accounts[0];
    if (account) say($("first").querySelector("pre"), `curl -H 'Authorization: Bearer ${wideKey(account)}' ${location.origin}${account.environment === "sandbox" ? "/sandbox" : ""}/v1/account`);
  }

  // Panels that fold stay so

  for (const node of document.querySelectorAll("main section > details")) {
    const name = `ranksim-fold-${node.parentNode.id}`, small = innerWidth < 600 && !["accounts", "jobs"].includes(node.parentNode.id);
    node.open = (sessionStorage.getItem(name) || (small ? "no" : "yes")) === "yes";
    node.addEventListener("toggle", () => {
      sessionStorage.setItem(name, node.open ? "yes" : "no");
      if (state) showWebhooks(); // whose timelines are as wide as they are seen
    });
  }

  // The clock

  for (const node of document.querySelectorAll("[data-advance]")) {
    node.addEventListener("click", () => act(node.textContent, () => advance({ by: node.dataset.advance }, node.textContent)));
  }
  $("next").addEventListener("click", () => act("To the next event", () => advance({ next: true }, "To the next event")));
  $("until-job").addEventListener("click", () => act("Until a job is done", () => {
    const job = state.jobs.find((one) => one.finished_at === null);
    if (!job) throw new Error("no job is under way");
    return advance({ until: { job: job.id } }, job.id);
  }));
  $("mode").addEventListener("change", () => act(`Time runs ${$("mode").value}`, () => control("PATCH", "/clock", { clock: $("mode").value })));

  // The state

  function none(node, words) {
    node.dataset.none = words;
    if (!node.children.length) node.append(el("p", { class: "none", "data-key": "" }, words));
  }

  function show(overview) {
    state = overview;
    base = ms(state.now);
    read = performance.now();
    rate = rateOf(state.clock);
    choose($("mode"), state.clock);
    const answered = Object.entries(state.answered).map(([group, number]) => `${group} ${count(number)}`);
    say($("counts"), answered.join(" · "));
    sync(body("accounts"), state.accounts, (one) => one.id, makeAccount, showAccount);
    if (state.more_accounts) say($("h-accounts"), `Accounts (${count(state.more_accounts)} more are not shown)`);
    say($("h-jobs"), state.count_of_jobs ? `Jobs (${count(state.count_of_jobs)})` : "Jobs");
    const ended = state.jobs.filter((one) => one.finished_at !== null);
    sync(body("jobs"), state.jobs.filter((one) => one.finished_at === null), (one) => one.id, makeJob, showJob);
    none(body("jobs"), state.count_of_jobs ? "No job is under way." : "No job was created.");
    sync($("ended").lastElementChild, ended, (one) => one.id, makeJob, showJob);
    $("ended").hidden = !ended.length;
    say($("ended").firstElementChild, ended.length < MOST_ENDED ? `${count(ended.length)} ended` : `the last ${MOST_ENDED} that ended`);
    showWebhooks();
    none(body("webhooks"), "No endpoint: POST /v1/webhooks makes one.");
    showFaults();
    none(body("faults"), "No fault is in force.");
    showLimits();
    showSnapshots();
    none(body("snapshots"), "No world was saved.");
    $("until-job").disabled = !state.jobs.some((one) => one.finished_at === null);
    $("next").disabled = !state.next_due;
    showFirst();
    tick();
  }

  // One reading at a time; what is wanted meanwhile is read once more after it.
  let reading = null, again = false, last = 0, planned = 0;

  async function refresh() {
    if (run) return; // it is read as its time is chosen
    if (reading) {
      again = true;
      return reading;
    }
    reading = (async () => {
      do {
        again = false;
        last = performance.now();
        try {
          show(await control("GET", "/overview"));
        } catch (error) {
          if (error.status) tell(error.message, true);
        }
      } while (again);
    })();
    await reading;
    reading = null;
  }

  function soon() {
    if (planned) return;
    planned = setTimeout(() => { planned = 0; refresh(); }, Math.max(0, last + REFRESH - performance.now()));
  }

  // Following events: a stream that is read by hand, since it needs a header and tells of gaps

  let known = "", seq = 0, following = null, tries = 0;

  function link(name, words) {
    $("link").dataset.state = name;
    say($("link"), words);
  }

  async function follow() {
    const stop = following = new AbortController();
    while (following === stop && !document.hidden) {
      try {
        const overview = await control("GET", "/overview");
        if (overview.log !== known) { // another run of the program, whose events are numbered anew
          known = overview.log;
          seq = 0;
          clear();
        }
        $("ask").hidden = true;
        document.querySelector("main").hidden = false;
        if (overview.recording) {
          record(overview.recording);
          return;
        }
        show(overview);
        const answer = await fetch(`/_ranksim/events?after=${seq}&most=${MOST}`, { headers, signal: stop.signal, cache: "no-store" });
        if (!answer.ok) throw new Error(`events were answered ${answer.status}`);
        link("open", "live");
        tries = 0;
        await parse(answer.body.getReader());
      } catch (error) {
        if (error.status === 401) {
          $("ask").hidden = false;
          document.querySelector("main").hidden = true;
          link("closed", token ? "wrong token" : "no token");
          if (token) say($("ask").firstElementChild, "This is not the token that the server printed when it started.");
          for (const one of document.querySelectorAll("header button")) one.disabled = true;
          return;
        }
      }
      if (following !== stop || document.hidden) return;
      tries += 1;
      link("closed", "cut off; connecting again");
      await new Promise((ready) => setTimeout(ready, Math.min(5000, 250 * 2 ** Math.min(tries, 5))));
    }
  }

  async function parse(reader) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = blocks.pop();
      const events = [];
      for (const one of blocks) {
        const fields = {};
        for (const line of one.split("\n")) {
          const colon = line.indexOf(": ");
          if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
        }
        if (fields.event === "missed") events.push({ what: "gap", seq: seq + 0.5, missed: Number(fields.data) });
        else if (fields.data) {
          const event = JSON.parse(fields.data);
          seq = event.seq;
          events.push(event);
        }
      }
      take(events);
      if (events.length) soon();
    }
  }

  // A run: the list shows what had happened up to an instant, the panels how things stood then

  function record(told) {
    const atEnd = !run || chosen === run.last;
    run = told;
    document.body.classList.add("recorded");
    document.body.classList.toggle("states", Boolean(told.states));
    link("recorded", `${plural(told.calls, "call")} ${told.grows ? "so far" : "recorded"}`);
    $("scrub").hidden = false;
    if (told.grows) setTimeout(grow, 2000);
    if (atEnd) move(told.last);
  }

  async function grow() {
    if (document.hidden) {
      setTimeout(grow, 2000);
      return;
    }
    try {
      record((await control("GET", "/overview")).recording);
    } catch (error) {
      link("closed", "cut off; connecting again");
      setTimeout(grow, 2000);
    }
  }

  async function move(instant) {
    chosen = Math.min(run.last, Math.max(run.first, Math.round(instant)));
    const number = moves += 1, slider = $("instant"), length = Math.max(1, run.last - run.first);
    base = chosen / 1000;
    const words = new Date(base).toISOString().slice(0, 23).replace("T", " ") + " UTC";
    slider.value = String(Math.round((Number(slider.max) * (chosen - run.first)) / length));
    slider.setAttribute("aria-valuetext", words);
    say($("now"), words);
    try {
      const found = await control("GET", `/recording?until=${chosen}`);
      if (number !== moves) return;
      const before = open && open.event.seq;
      clear();
      take(found.events);
      list.scrollTop = 0;
      if (found.state) show({ ...found.state, clock: "manual", traffic_clock: "same", answered: {}, faults: [], snapshots: [] });
      say($("due"), `${count(found.count)} of ${count(run.events)} events`);
      const again = shown.find((line) => line.events.some((event) => event.seq === before));
      if (again) toggle(again);
    } catch (error) {
      tell(error.message, true);
    }
  }

  $("instant").addEventListener("input", () => move(run.first + ((run.last - run.first) * Number($("instant").value)) / Number($("instant").max)));
  for (const node of document.querySelectorAll("[data-step]")) {
    node.addEventListener("click", () => move(chosen + Number(node.dataset.step) * 60e6));
  }

  document.addEventListener("visibilitychange", () => {
    if (run) return;
    if (document.hidden) {
      if (following) following.abort();
      following = null;
      link("closed", "not followed while hidden");
    } else if (!following) follow();
  });

  setInterval(() => {
    tick();
    if (rate && !document.hidden && following && performance.now() - last > 5000) soon();
  }, 250);

  follow();
})();
