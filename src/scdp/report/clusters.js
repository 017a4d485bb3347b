"use strict";
(async () => {
  const PAGE = 25, DOUBT = 90;
  const make = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const part = (id) => document.getElementById(id);
  const read = async () => {
    const text = atob(part("clusters-data").textContent);
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(plain).text());
  };
  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const whole = (number) => number.toLocaleString("en");
  let data, starts, texts;
  const row = (record) => data.cells.map((column) => column[record]);
  const textOf = (k) => {
    if (texts[k] === undefined) {
      const words = [data.names[k]];
      for (let r = starts[k]; r < starts[k + 1]; r++) words.push(data.ids[r], ...row(r).filter((cell) => cell !== null));
      texts[k] = fold(words.join(" "));
    }
    return texts[k];
  };
  const table = (k) => {
    const box = make("div", undefined, "scroll"), grid = make("table"), head = make("tr");
    ["id", "sure", ...data.columns].forEach((name) => head.append(make("th", name)));
    grid.append(head);
    const common = data.cells.map((column) => {
      const counts = new Map();
      for (let r = starts[k]; r < starts[k + 1]; r++) counts.set(column[r], (counts.get(column[r]) || 0) + 1);
      return [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
    });
    for (let r = starts[k]; r < starts[k + 1]; r++) {
      const line = make("tr");
      line.append(make("td", data.ids[r]), make("td", (data.sure[r] / 100).toFixed(2)));
      row(r).forEach((cell, c) => {
        const differs = cell !== common[c];
        const box = make("td", cell === null ? "missing" : cell, cell === null ? "gap" : differs ? "differs" : "");
        box.dir = "auto";
        line.append(box);
      });
      grid.append(line);
    }
    box.append(grid);
    return box;
  };
  const entry = (k) => {
    const box = make("details", undefined, "cluster"), title = make("summary");
    const n = data.sizes[k], gist = row(starts[k]).filter((cell) => cell !== null).slice(0, 3).join(" · ");
    const meter = make("i", undefined, data.least[k] < DOUBT ? "doubt" : "sure");
    meter.style.width = `${Math.max(data.least[k], 4) * 0.4}px`;
    const bar = make("span", undefined, "meter");
    bar.title = `its least sure record belongs here with probability ${(data.least[k] / 100).toFixed(2)}`;
    bar.append(meter);
    title.append(make("b", data.names[k]), make("span", `${whole(n)} ${n === 1 ? "record" : "records"}`, "count"));
    title.append(bar, make("span", (data.least[k] / 100).toFixed(2), "count"), make("span", gist, "gist"));
    box.append(title);
    box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(table(k)); });
    return box;
  };
  let found = [], page = 0;
  const draw = () => {
    const list = part("clusters-list"), last = Math.max(Math.ceil(found.length / PAGE) - 1, 0);
    page = Math.min(Math.max(page, 0), last);
    const some = found.slice(page * PAGE, (page + 1) * PAGE);
    list.replaceChildren(...some.map(entry));
    const where = found.length ? `${whole(page * PAGE + 1)} to ${whole(page * PAGE + some.length)} of ` : "";
    part("clusters-status").textContent = `${where}${whole(found.length)} ${found.length === 1 ? "cluster" : "clusters"}`;
    part("clusters-before").disabled = page === 0;
    part("clusters-after").disabled = page === last;
  };
  const orders = {
    doubt: (a, b) => data.least[a] - data.least[b] || data.sizes[b] - data.sizes[a],
    size: (a, b) => data.sizes[b] - data.sizes[a] || data.least[a] - data.least[b],
    name: (a, b) => data.collator.compare(data.names[a], data.names[b]),
  };
  const filter = () => {
    const words = fold(part("clusters-search").value).split(/\s+/).filter(Boolean);
    const [low, high] = part("clusters-size").value.split("-").map(Number);
    const sure = part("clusters-sure").value;
    found = [];
    for (let k = 0; k < data.names.length; k++) {
      if (data.sizes[k] < low || data.sizes[k] > high) continue;
      if (sure && (data.least[k] < DOUBT) !== (sure === "doubt")) continue;
      if (words.every((word) => textOf(k).includes(word))) found.push(k);
    }
    found.sort(orders[part("clusters-order").value]);
    page = 0;
    draw();
  };
  try {
    data = await read();
    data.collator = new Intl.Collator("en", {numeric: true});
    starts = new Uint32Array(data.sizes.length + 1);
    data.sizes.forEach((n, k) => { starts[k + 1] = starts[k] + n; });
    // A cluster without a name of its own is called by its first record.
    data.names = data.names.map((name, k) => name === null ? `c-${data.ids[starts[k]]}` : name);
    texts = new Array(data.sizes.length);
    let wait;
    part("clusters-find").addEventListener("submit", (event) => event.preventDefault());
    part("clusters-search").addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(filter, 150); });
    for (const name of ["size", "sure", "order"]) part(`clusters-${name}`).addEventListener("change", filter);
    part("clusters-before").addEventListener("click", () => { page -= 1; draw(); });
    part("clusters-after").addEventListener("click", () => { page += 1; draw(); });
    part("clusters-find").hidden = part("clusters-pages").hidden = false;
    filter();
  } catch (error) {
    part("clusters-status").textContent = `The clusters cannot be shown by this browser (${error}); they are in the file of clusters.`;
  }
})();
