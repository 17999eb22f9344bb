// The document reader. It shows a document at a time of what is embedded as JSON, so that a test set
// of thousands of sentences opens at once. Texts get into the page as text nodes only.
"use strict";
(() => {
  const texts = JSON.parse(document.getElementById("reader-data").textContent);
  const $ = (id) => document.getElementById(id);
  const list = $("reader-sentences");
  const fields = {
    text: $("reader-text"), doc: $("reader-doc"), mark: $("reader-mark"), query: $("reader-query"),
    drop: $("reader-drop"), of: $("reader-of"), wrong: $("reader-wrong"), right: $("reader-right"),
    only: $("reader-only"), omitted: $("reader-omitted"), keys: $("reader-keys-on"),
  };
  let text = texts[0]; // the test set or contrastive set that is shown
  let hidden = new Set(); // systems that are not shown, by place
  let matches = new Map(); // document -> places of its sentences that the filters let through
  let current = 0; // the selected sentence

  // ---- small tools ----

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function fill(select, labels, chosen) {
    select.replaceChildren(...labels.map(([value, label]) => element("option", { value }, label)));
    if (labels.some(([value]) => String(value) === String(chosen))) select.value = chosen;
  }

  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const place = () => Number(fields.doc.value || 0);
  const base = () => text.baseline;
  const compares = () => base() >= 0 && text.systems.length > 1;

  // ---- filters ----

  function filtered() {
    return Boolean(fields.query.value.trim() || fields.drop.value || fields.wrong.value
      || fields.right.value);
  }

  function passesDrop(scores) {
    const least = Number(fields.drop.value);
    const below = (system) => system !== base() && scores[base()] - scores[system] >= least;
    if (fields.of.value === "") return scores.some((_, system) => below(system));
    return below(Number(fields.of.value));
  }

  function passesVerdicts(verdicts) {
    const { wrong, right } = fields;
    return (wrong.value === "" || verdicts[wrong.value][0] === false)
      && (right.value === "" || verdicts[right.value][0] === true);
  }

  // The sentences of a document that all filters let through.
  function matching(doc) {
    if (doc.v && !passesVerdicts(doc.v)) return [];
    const query = fields.query.value.trim().toLocaleLowerCase();
    const dropping = fields.drop.value !== "" && compares();
    const found = [];
    const whole = doc.w.some((one) => one.toLocaleLowerCase().includes(query));
    doc.r.forEach((reference, index) => {
      if (dropping && !passesDrop(doc.c[index])) return;
      const shown = doc.h[index].filter((one, system) => one !== null && !hidden.has(system));
      const all = [doc.s[index] ?? "", reference, ...shown];
      if (query && !whole && !all.some((one) => one.toLocaleLowerCase().includes(query))) return;
      found.push(index);
    });
    return found;
  }

  function filter() {
    matches = new Map();
    text.documents.forEach((doc, number) => {
      const found = matching(doc);
      if (found.length) matches.set(number, found);
    });
    const active = filtered();
    const labels = [];
    text.documents.forEach((doc, number) => {
      if (active && !matches.has(number)) return;
      let label = doc.name ?? `Document ${number + 1}`;
      label += ` · ${plural(doc.r.length, "sentence")}`;
      if (active && !doc.v) label += ` · ${matches.get(number).length} found`;
      labels.push([number, label]);
    });
    fill(fields.doc, labels, fields.doc.value);
    fields.doc.disabled = !labels.length;
    show(Math.max(0, (matches.get(place()) ?? [0])[0]));
  }

  // ---- showing a document ----

  // A text whose parts that differ are marked; ranges count characters, not UTF-16 units.
  function marked(string, ranges, other) {
    const [own, others] = [Array.from(string), Array.from(other)];
    const paragraph = element("p", { dir: "auto" });
    let end = 0;
    for (let n = 0; n < ranges.length; n += 4) {
      const [from, to, otherFrom, otherTo] = ranges.slice(n, n + 4);
      paragraph.append(own.slice(end, from).join(""));
      if (to > from) paragraph.append(element("mark", {}, own.slice(from, to).join("")));
      if (otherTo > otherFrom) {
        const left = others.slice(otherFrom, otherTo).join("");
        if (fields.omitted.checked) paragraph.append(" ", element("del", {}, left), " ");
        else if (to === from) {
          paragraph.append(element("span", { class: "gap", title: `not here: ${left}` }, "‸"));
        }
      }
      end = to;
    }
    paragraph.append(own.slice(end).join(""));
    return paragraph;
  }

  function cell(kind, label, paragraph, lang) {
    if (lang) paragraph.setAttribute("lang", lang);
    return element("div", { class: `cell ${kind}` }, element("div", { class: "label" }, ...label),
      paragraph);
  }

  const plain = (string) => element("p", { dir: "auto" }, string);

  function scoreOf(doc, index, system) {
    const scores = doc.c[index];
    if (!scores) return [];
    const parts = [` chrF ${scores[system].toFixed(1)}`];
    if (compares() && system !== base()) {
      const change = scores[system] - scores[base()];
      const kind = change > 0.05 ? "better" : change < -0.05 ? "worse" : "even";
      const sign = kind === "better" ? "▲ +" : kind === "worse" ? "▼ −" : "= ";
      parts.push(element("span", { class: kind }, ` ${sign}${Math.abs(change).toFixed(1)}`));
    }
    return [element("span", { class: "chrf" }, ...parts)];
  }

  function sentence(doc, index) {
    const [sourceLang, targetLang] = text.lang;
    const cells = [];
    if (doc.s.length) cells.push(cell("source", ["source"], plain(doc.s[index]), sourceLang));
    const right = text.judged ? "right" : "reference";
    cells.push(cell("reference", [right], plain(doc.r[index]), targetLang));
    const toBase = fields.mark.value === "baseline";
    text.systems.forEach((name, system) => {
      const string = doc.h[index][system];
      if (hidden.has(system) || string === null) return;
      const ranges = fields.mark.value === "none" ? [] : (toBase ? doc.b : doc.d)[index][system];
      const other = toBase ? doc.h[index][base()] : doc.r[index];
      const label = [element("b", {}, name), system === base() ? " (baseline)" : "",
        ...scoreOf(doc, index, system)];
      const paragraph = string === "" ? element("p", { class: "empty" }, "(empty)")
        : marked(string, ranges, other);
      cells.push(cell("system", label, paragraph, targetLang));
    });
    const number = element("div", { class: "number" },
      element("span", { class: "unseen" }, "Sentence "), String(index + 1));
    return element("li", { tabindex: "-1", "data-sentence": index }, number,
      element("div", { class: "cells" }, ...cells));
  }

  // What the systems make of a contrastive item.
  function verdicts(doc) {
    if (!doc.v) return [];
    const rows = doc.v.map(([right, scores], system) => {
      const word = right === true ? "✓ right" : right === false ? "✗ wrong" : "not judged";
      const kind = right === true ? "better" : right === false ? "worse" : "even";
      const values = scores.length
        ? `right candidate ${scores[0]}, others ${scores.slice(1).join(", ")}` : "";
      return element("tr", {}, element("th", { scope: "row" }, text.judged[system]),
        element("td", { class: kind }, word), element("td", {}, values));
    });
    const caption = element("caption", {}, "What the systems make of this item");
    return [element("table", { class: "verdicts" }, caption, element("tbody", {}, ...rows))];
  }

  function wholes(doc) {
    return doc.w.map((string, n) => cell("system", [element("b", {}, text.whole[n]),
      " translates the document without aligned sentences"], plain(string), text.lang[1]));
  }

  function show(index, focus = false) {
    const doc = text.documents[place()];
    const found = new Set(matches.get(place()) ?? []);
    const active = filtered();
    const nothing = active && !matches.size;
    $("reader-about").replaceChildren(...(nothing ? [] : [...verdicts(doc), ...wholes(doc)]));
    const items = nothing ? [] : doc.r.map((_, n) => n)
      .filter((n) => !active || !fields.only.checked || found.has(n))
      .map((n) => {
        const item = sentence(doc, n);
        if (active && !doc.v) item.classList.add(found.has(n) ? "found" : "context");
        return item;
      });
    list.replaceChildren(...items);
    list.setAttribute("aria-label", `Sentences of document ${place() + 1}`);
    choose(index, focus);
    let total = 0;
    for (const one of matches.values()) total += one.length;
    const few = text.judged ? plural(matches.size, "item") : plural(total, "sentence");
    const where = `Document ${place() + 1} of ${text.documents.length.toLocaleString("en")}`;
    $("reader-status").textContent = nothing ? "No sentence passes these filters."
      : active ? `${few} found in ${plural(matches.size, "document")}. ${where}.` : `${where}.`;
    const order = [...fields.doc.options].map((option) => option.value);
    $("reader-before").disabled = order.indexOf(fields.doc.value) <= 0;
    $("reader-after").disabled = order.indexOf(fields.doc.value) >= order.length - 1;
  }

  // Select a sentence, the one that Tab reaches.
  function choose(index, focus) {
    const items = [...list.children];
    const chosen = items.find((item) => Number(item.dataset.sentence) >= index) ?? items.at(-1);
    for (const item of items) {
      item.tabIndex = item === chosen ? 0 : -1;
      if (item === chosen) item.setAttribute("aria-current", "true");
      else item.removeAttribute("aria-current");
    }
    current = chosen ? Number(chosen.dataset.sentence) : 0;
    if (focus && chosen) {
      chosen.focus({ preventScroll: true });
      chosen.scrollIntoView({ block: "nearest" });
    }
  }

  // ---- moving ----

  function toDocument(step, end = false, focus = true) {
    const next = fields.doc.selectedIndex + step;
    if (next < 0 || next >= fields.doc.options.length) return;
    fields.doc.selectedIndex = next;
    const found = matches.get(place()) ?? [0];
    show(end ? Infinity : filtered() ? found[0] : 0, focus);
    remember();
  }

  function toSentence(step) {
    const items = [...list.children];
    const now = items.findIndex((item) => Number(item.dataset.sentence) === current);
    if (!items.length) return;
    if (now + step < 0) toDocument(-1, true);
    else if (now + step >= items.length) toDocument(1);
    else choose(Number(items[now + step].dataset.sentence), true);
    remember();
  }

  function toFound(step) {
    const found = matches.get(place()) ?? [];
    const left = step > 0 ? found.filter((n) => n > current) : found.filter((n) => n < current);
    if (filtered() && left.length) choose(step > 0 ? left[0] : left.at(-1), true);
    else if (filtered()) toDocument(step, step < 0);
    remember();
  }

  function nextMark() {
    const usable = [...fields.mark.options].filter((option) => !option.disabled);
    const now = usable.findIndex((option) => option.value === fields.mark.value);
    fields.mark.value = usable[(now + 1) % usable.length].value;
    show(current, list.contains(document.activeElement));
  }

  const keys = {
    j: () => toSentence(1), k: () => toSentence(-1), l: () => toDocument(1),
    h: () => toDocument(-1), n: () => toFound(1), p: () => toFound(-1), m: nextMark,
    "/": () => fields.query.focus(), "?": () => $("reader-keys").toggleAttribute("open"),
  };
  const arrows = {
    ArrowDown: () => toSentence(1), ArrowUp: () => toSentence(-1),
    Home: () => choose(0, true), End: () => choose(Infinity, true),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (typing) {
      if (event.key === "Escape" || (event.key === "Enter" && typing.tagName === "INPUT")) {
        event.preventDefault();
        choose(current, true);
      }
      return;
    }
    const inList = list.contains(document.activeElement);
    const work = (inList && arrows[event.key]) || (fields.keys.checked && keys[event.key]);
    if (!work) return;
    event.preventDefault();
    work();
  });

  // ---- the address remembers where one is ----

  const remembered = ["doc", "mark", "query", "drop", "of", "wrong", "right"];

  function remember() {
    const state = new URLSearchParams({ text: fields.text.value });
    for (const name of remembered) if (fields[name].value) state.set(name, fields[name].value);
    state.set("sentence", current + 1);
    state.set("doc", place() + 1);
    try {
      history.replaceState(null, "", `#${state}`);
    } catch { /* not allowed for pages of some programs; nothing depends on it */ }
  }

  function restore() {
    const state = new URLSearchParams(location.hash.slice(1));
    if (!state.has("doc")) return false;
    set(fields.text, state.get("text"));
    open();
    for (const name of remembered.slice(1)) {
      fields[name].value = name === "mark" ? "reference" : "";
      set(fields[name], state.get(name));
    }
    filter();
    set(fields.doc, String(state.get("doc") - 1));
    show(Math.max(0, Number(state.get("sentence") ?? 1) - 1) || 0, true);
    return true;
  }

  // Give a field a value of the address, which anyone can have written: one that it can have here.
  function set(field, value) {
    const usable = field.options === undefined ? field.closest("[hidden]") === null
      : [...field.options].some((one) => !one.disabled && one.value === value);
    if (value !== null && usable) field.value = value;
  }

  // ---- a test set or contrastive set ----

  function open() {
    text = texts[fields.text.value];
    hidden = new Set();
    const every = text.systems.map((name, system) => [system, name]);
    fill(fields.of, [["", "any system"], ...every.filter(([system]) => system !== base())], "");
    const judged = (text.judged ?? []).map((name, system) => [system, name]);
    fill(fields.wrong, [["", "–"], ...judged], "");
    fill(fields.right, [["", "–"], ...judged], "");
    for (const part of document.querySelectorAll("[data-needs]")) {
      part.hidden = part.dataset.needs === "baseline" ? !compares() : !text.judged;
    }
    fields.mark.querySelector("[value=baseline]").disabled = !compares();
    fields.mark.querySelector("[value=baseline]").hidden = !compares();
    if (!compares() && fields.mark.value === "baseline") fields.mark.value = "reference";
    $("reader-base").textContent = compares() ? text.systems[base()] : "";
    const boxes = text.systems.map((name, system) => {
      const box = element("input", { type: "checkbox" });
      box.checked = true;
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(system);
        else hidden.add(system);
        show(current);
      });
      return element("label", { class: "check" }, box, ` ${name}`);
    });
    $("reader-systems").replaceChildren(element("legend", {}, "Columns"), ...boxes);
    for (const name of ["query", "drop"]) fields[name].value = "";
    fields.doc.replaceChildren();
    filter();
  }

  fill(fields.text, texts.map((one, number) => [number, one.title]), 0);
  $("reader-texts").hidden = texts.length < 2;
  fields.text.addEventListener("change", () => { open(); remember(); });
  fields.doc.addEventListener("change", () => { show((matches.get(place()) ?? [0])[0]); remember(); });
  for (const name of ["mark", "omitted", "only"]) {
    fields[name].addEventListener("change", () => show(current));
  }
  let waiting;
  for (const name of ["query", "drop", "of", "wrong", "right"]) {
    fields[name].addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { filter(); remember(); }, 150);
    });
  }
  $("reader-before").addEventListener("click", () => toDocument(-1, false, false));
  $("reader-after").addEventListener("click", () => toDocument(1, false, false));
  $("reader-form").addEventListener("submit", (event) => event.preventDefault());
  $("reader-clear").addEventListener("click", () => {
    for (const name of remembered.slice(2)) fields[name].value = "";
    filter();
    remember();
  });
  list.addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (item) { choose(Number(item.dataset.sentence), false); remember(); }
  });
  window.addEventListener("hashchange", restore);
  $("reader").hidden = false;
  if (!restore()) open();
})();
