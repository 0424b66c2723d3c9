"use strict";
(() => {
  const kinds = { float32: Float32Array, uint32: Uint32Array, uint16: Uint16Array, int8: Int8Array };
  const at = (id) => document.getElementById(id);

  function read() {
    const raw = Uint8Array.from(atob(at("data").textContent.trim()), (c) => c.charCodeAt(0)).buffer;
    const first = 4 + new DataView(raw).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 4, first - 4)));
    const arrays = {};
    for (const [name, [kind, from, shape]] of Object.entries(header.arrays)) {
      const size = shape.reduce((a, b) => a * b, 1);
      arrays[name] = { shape, values: new kinds[kind](raw, first + from, size) };
    }
    return { text: header.text, arrays };
  }

  const { text, arrays } = read();
  const folded = text.rows.map((name) => name.toLowerCase());
  const input = at("row");
  let current = -1;

  function number(x) {
    if (!Number.isFinite(x)) return "–";
    const size = Math.abs(x);
    const digits = size >= 100 || Number.isInteger(x) ? 0 : size >= 10 ? 1 : size >= 0.995 ? 2 : 3;
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    const text = size && size < 0.01 ? x.toPrecision(2) : x.toLocaleString("en", options);
    return text.replaceAll("-", "−");
  }

  function make(tag, style, content) {
    const element = document.createElement(tag);
    if (style) element.className = style;
    if (content !== undefined) element.textContent = content;
    return element;
  }

  function name(label, style) {
    return make("bdi", style, label);
  }

  function several(parts) {
    const all = make("span");
    parts.forEach((part, k) => {
      if (k) all.append("; ");
      all.append(...part);
    });
    return all;
  }

  function terms(place) {
    const size = arrays.term.shape[2];
    const found = [];
    for (let k = 0; k < size; k++) {
      const which = arrays.term.values[place * size + k];
      if (which >= text.terms.length) continue;
      const value = arrays.term_value.values[place * size + k];
      const card = at(`component-${which + 1}`);
      const term = make(card ? "a" : "span", "", text.terms[which]);
      if (card) term.href = `#component-${which + 1}`;
      found.push([term, ` (${value < 0 ? "" : "+"}${number(value)})`]);
    }
    return found;
  }

  function entries(place) {
    const size = arrays.entry.shape[2];
    const found = [];
    for (let k = 0; k < size; k++) {
      const which = arrays.entry.values[place * size + k];
      if (which >= text.columns.length) continue;
      const label = name(text.columns[which]);
      const negative = arrays.entry_sign.values[place * size + k] < 0;
      const sign = negative ? "lowers it" : "raises it";
      const opposite = negative ? " (in the opposite direction)" : "";
      const value = text.values ? `: ${number(arrays.entry_value.values[place * size + k])}, ${sign}` : opposite;
      found.push([label, value]);
    }
    return found;
  }

  function track(low, mean, high, scale) {
    const rail = make("div", "track");
    const share = (x) => 100 * Math.min(1, Math.max(0, (x - scale[0]) / (scale[1] - scale[0] || 1)));
    const span = make("div", "span");
    span.style.left = `${share(low)}%`;
    span.style.width = `${Math.max(share(high) - share(low), 1)}%`;
    const mark = make("div", "mark");
    mark.style.left = `${share(mean)}%`;
    rail.append(span, mark);
    rail.setAttribute("aria-hidden", "true");
    return rail;
  }

  function prediction(place, scale) {
    const item = make("li");
    const line = make("div", "line");
    const [mean, low, high] = ["mean", "low", "high"].map((key) => arrays[key].values[place]);
    const value = make("span", "value", `${number(mean)} (${number(low)} to ${number(high)})`);
    line.append(name(text.columns[arrays.best.values[place]], "name"), value, track(low, mean, high, scale));
    item.append(line);
    const why = make("p", "why", "Carried by ");
    why.append(several(terms(place)));
    const own = entries(place);
    if (own.length) {
      why.append(text.values ? ". The row's entries that matter: " : ". Follows the row's entries at ", several(own));
    }
    why.append(".");
    item.append(why);
    return item;
  }

  function show(row, write = true) {
    const started = performance.now();
    current = row;
    const best = arrays.best.shape[1];
    const places = [];
    for (let p = row * best; p < (row + 1) * best; p++) {
      if (arrays.best.values[p] < text.columns.length) places.push(p);
    }
    const ends = ["low", "mean", "high"].flatMap((key) => places.map((p) => arrays[key].values[p]));
    const scale = text.scale || [Math.min(...ends), Math.max(...ends)];
    const list = make("ol", "results");
    places.forEach((place) => list.append(prediction(place, scale)));
    const count = text.entries ? `, ${arrays.count.values[row].toLocaleString("en")} entries of its own` : "";
    const status = at("status");
    status.replaceChildren(name(text.rows[row]), `${count}: ${places.length ? "predictions, best first" : "no column is left to predict"}`);
    at("answer").replaceChildren(list);
    if (write) input.value = text.rows[row];
    document.body.dataset.lookup = (performance.now() - started).toFixed(2);
  }

  function search() {
    const wanted = input.value.trim().toLowerCase();
    const starts = [];
    const holds = [];
    for (let r = 0; r < folded.length && starts.length < 30; r++) {
      if (folded[r].startsWith(wanted)) starts.push(r);
      else if (holds.length < 30 && folded[r].includes(wanted)) holds.push(r);
    }
    const found = starts.concat(holds).slice(0, 30);
    at("matches").replaceChildren(
      ...found.map((r) => {
        const option = document.createElement("option");
        option.value = text.rows[r];
        return option;
      }),
    );
    const exact = folded.indexOf(wanted);
    return exact >= 0 ? exact : found.length ? found[0] : -1;
  }

  function settle() {
    const row = search();
    if (row >= 0) show(row);
    else {
      at("status").textContent = "No such row.";
      at("answer").replaceChildren();
    }
  }

  const size = text.rows.length;
  input.addEventListener("input", () => {
    const row = search();
    if (folded[row] === input.value.trim().toLowerCase()) show(row, false);
  });
  input.addEventListener("change", settle);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") settle();
  });
  at("previous").addEventListener("click", () => show((current + size - 1) % size));
  at("next").addEventListener("click", () => show((current + 1) % size));
  at("random").addEventListener("click", () => show(Math.floor(Math.random() * size)));
  if (size) {
    at("tool").hidden = false;
    search();
    show(0);
  }
})();
