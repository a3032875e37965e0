"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const dataOf = (id) => JSON.parse(byId(id).textContent);
  const number = new Intl.NumberFormat("en");
  const counted = (count, noun) => `${number.format(count)} ${noun}${count === 1 ? "" : "s"}`;

  /** An element of attributes and children; text becomes text, never markup. */
  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // --- copying ---------------------------------------------------------------------------

  const copy = async (source) => {
    const text = source.textContent.trimEnd(); // a shell runs what ends in a line's end
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      getSelection().selectAllChildren(source);
      return document.execCommand("copy");
    }
  };

  for (const button of document.querySelectorAll("button.copy")) {
    const word = button.firstChild;
    button.hidden = false;
    button.addEventListener("click", async () => {
      word.data = (await copy(byId(button.dataset.copy))) ? "Copied" : "Press Ctrl+C";
      byId("said").textContent = word.data;
      setTimeout(() => { word.data = "Copy"; }, 2000);
    });
  }

  // --- the table of all hosts ------------------------------------------------------------

  const CHUNK = 200; // rows that are made at once
  const hosts = dataOf("hosts-data");
  const every = hosts.node.map((_, host) => host); // in the order of the names

  const ranks = (values) => {
    const order = new Map([...new Set(values)].sort().map((value, rank) => [value, rank]));
    return values.map((value) => order.get(value));
  };
  const sortedBy = {
    node: every,
    status: hosts.status,
    class: hosts.class,
    reason: hosts.reason.map((found) => (found.length ? found[0] : hosts.reasons.length)),
    at: ranks(hosts.at),
    version: hosts.version,
  };
  const searched = every.map((host) => [
    hosts.node[host],
    hosts.statuses[hosts.status[host]],
    hosts.classes[hosts.class[host]],
    ...hosts.reason[host].map((reason) => hosts.reasons[reason]),
    hosts.at[host],
    hosts.versions[hosts.version[host]],
  ].join("\n").toLowerCase());

  const filter = byId("filter");
  const search = byId("search");
  const [byStatus, byReason, byClass] = ["by-status", "by-reason", "by-class"].map(byId);
  const body = byId("rows");
  const more = byId("more");
  let sort = { column: "status", up: true };
  let chosen = []; // hosts that the filter leaves, in order
  let drawn = 0; // of them in the table
  let run = 0; // which choice is being drawn

  const reasonOf = (reason) => {
    const code = make("code", {}, hosts.reasons[reason]);
    const group = hosts.anchors[reason];
    return group < 0 ? code : make("a", { href: `#reason-${group}` }, code);
  };

  const rowOf = (host, place) => {
    const status = hosts.statuses[hosts.status[host]];
    const reasons = hosts.reason[host].flatMap((reason) => [reasonOf(reason), " "]);
    if (hosts.more[host]) reasons.push(`and ${hosts.more[host]} more`);
    const badge = make("span", { class: `badge ${status.replace(" ", "-")}` }, status);
    const cell = (...children) => make("td", { role: "cell" }, ...children);
    return make("tr", { role: "row", "aria-rowindex": place + 2 },
      make("th", { scope: "row", role: "rowheader", tabindex: "-1" }, make("code", {}, hosts.node[host])),
      cell(badge),
      cell(...(reasons.length ? reasons : ["–"])),
      cell(hosts.classes[hosts.class[host]] || "–"),
      cell(hosts.at[host] || "–"),
      cell(hosts.versions[hosts.version[host]] || "–"));
  };

  const draw = (count) => {
    const rows = document.createDocumentFragment();
    const end = Math.min(drawn + count, chosen.length);
    for (; drawn < end; drawn += 1) rows.append(rowOf(chosen[drawn], drawn));
    body.append(rows);
    const left = chosen.length - drawn;
    more.hidden = left === 0;
    byId("more-rows").textContent = `Show ${number.format(Math.min(CHUNK, left))} more`;
    byId("all-rows").textContent = `Show all ${number.format(chosen.length)}`;
  };

  const update = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const is = (select, value) => select.value === "" || Number(select.value) === value;
    const key = sortedBy[sort.column];
    const direction = sort.up ? 1 : -1;
    chosen = every
      .filter((host) => is(byStatus, hosts.status[host]) && is(byClass, hosts.class[host])
        && (byReason.value === "" || hosts.reason[host].includes(Number(byReason.value)))
        && words.every((word) => searched[host].includes(word)))
      .sort((one, other) => direction * (key[one] - key[other]) || one - other);
    run += 1;
    drawn = 0;
    body.replaceChildren();
    draw(CHUNK);
    byId("table").setAttribute("aria-rowcount", chosen.length + 1);
    byId("shown").textContent = `${number.format(chosen.length)} of ${counted(every.length, "host")}`;
  };

  const headers = [...document.querySelectorAll("button[data-sort]")];
  const mark = () => {
    for (const button of headers) {
      const here = button.dataset.sort === sort.column;
      const order = sort.up ? "ascending" : "descending";
      button.parentElement.setAttribute("aria-sort", here ? order : "none");
    }
  };
  for (const button of headers) {
    button.addEventListener("click", () => {
      const column = button.dataset.sort;
      sort = { column, up: sort.column === column ? !sort.up : true };
      mark();
      update();
    });
  }

  const options = (select, words, used) => {
    const values = [...words.keys()].filter((value) => used.has(value)).slice(0, 1000);
    select.append(...values.map((value) => make("option", { value }, words[value] || "none")));
  };
  options(byStatus, hosts.statuses, new Set(hosts.status));
  options(byClass, hosts.classes, new Set(hosts.class));
  options(byReason, hosts.reasons, new Set(hosts.reason.flat()));

  filter.addEventListener("input", update);
  filter.addEventListener("submit", (event) => event.preventDefault());
  filter.addEventListener("reset", () => setTimeout(update)); // the fields are empty after it

  for (const button of document.querySelectorAll("button.only")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      for (const field of [search, byStatus, byClass]) field.value = "";
      byReason.value = button.dataset.reason;
      update();
      byId("hosts").scrollIntoView();
      byId("hosts").focus({ preventScroll: true });
    });
  }

  byId("more-rows").addEventListener("click", () => {
    const first = drawn;
    draw(CHUNK);
    body.rows[first].cells[0].focus();
  });
  byId("all-rows").addEventListener("click", () => {
    const mine = run;
    const first = drawn;
    const step = () => {
      if (run !== mine || drawn >= chosen.length) return;
      draw(CHUNK);
      requestAnimationFrame(step);
    };
    step();
    body.rows[first].cells[0].focus();
  });
  new IntersectionObserver((seen) => {
    if (seen.some((each) => each.isIntersecting) && !more.hidden) draw(CHUNK);
  }, { rootMargin: "400px" }).observe(more);

  mark();
  update();
  performance.mark("rdmadiag:table");

  // --- the heat map ----------------------------------------------------------------------

  const canvas = byId("map");
  if (!canvas) return;
  const map = dataOf("pairs-data");
  const size = map.labels.length;
  const at = new Map(map.squares.map(([row, column, ...tally]) => [row * size + column, tally]));
  const box = canvas.parentElement;
  const STEPS = [1.1, 1.25, 1.5, 2]; // times slower than the median, as the legend says
  const [LEAST, MOST, LABELLED] = [2, 22, 12]; // pixels of a square
  const HOT = ["heat-2", "heat-3", "heat-4", "failed"];
  const SEEN = 5; // pixels that one of these has at least
  let cursor = null;
  let shape = null; // { square, left, top }: where the squares begin

  const shadeOf = ([tried, failed, , slower]) => {
    if (failed * 2 >= tried && failed > 0) return "failed";
    return `heat-${STEPS.filter((step) => slower >= step).length}`;
  };

  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`);
    const context = canvas.getContext("2d");
    const font = `11px ${getComputedStyle(byId("square")).fontFamily}`;
    const fits = (margin) => Math.floor((box.clientWidth - margin) / size);
    const short = (label) => (label.length > 24 ? `${label.slice(0, 23)}…` : label);
    context.font = font;
    const widest = Math.ceil(Math.max(...map.labels.map((each) => context.measureText(short(each)).width)));
    const labelled = fits(widest + 30) >= LABELLED;
    const strip = 12; // the medians of the rows and columns
    const margin = strip + 4 + (labelled ? widest + 6 : 0);
    const square = Math.max(LEAST, Math.min(MOST, fits(margin)));
    shape = { square, left: margin, top: margin };
    const side = margin + size * square + 1;
    canvas.width = Math.ceil(side * devicePixelRatio);
    canvas.height = canvas.width;
    canvas.style.width = `${side}px`;
    canvas.style.height = `${side}px`;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.fillStyle = colour("untried");
    context.fillRect(margin, margin, size * square, size * square);
    const gap = square > 4 ? 1 : 0;
    const fill = (shade, x, y, width, height) => {
      context.fillStyle = colour(shade);
      context.fillRect(x, y, width - gap, height - gap);
      if (shade !== "failed" || square < 8) return;
      context.strokeStyle = colour("cross");
      context.beginPath();
      context.moveTo(x + 2, y + 2);
      context.lineTo(x + width - gap - 2, y + height - gap - 2);
      context.moveTo(x + width - gap - 2, y + 2);
      context.lineTo(x + 2, y + height - gap - 2);
      context.stroke();
    };
    const cells = []; // [shade, x, y, width, height]
    for (const [key, tally] of at) {
      const [row, column] = [Math.floor(key / size), key % size];
      const any = tally[1] > 0 ? [1, 1] : tally; // one that failed is the slowest of its square
      cells.push([shadeOf(any), margin + column * square, margin + row * square, square, square]);
    }
    const start = margin - strip - 4;
    map.senders.forEach((tally, row) => {
      if (tally[0]) cells.push([shadeOf(tally), start, margin + row * square, strip, square]);
    });
    map.receivers.forEach((tally, column) => {
      if (tally[0]) cells.push([shadeOf(tally), margin + column * square, start, square, strip]);
    });
    const hot = ([shade]) => HOT.includes(shade);
    for (const [shade, x, y, width, height] of cells.filter((each) => !hot(each))) {
      fill(shade, x, y, width, height);
    }
    for (const [shade, x, y, width, height] of cells.filter(hot)) { // over the others, and seen
      fill(shade, x, y, Math.max(width, SEEN), Math.max(height, SEEN));
    }
    if (labelled) {
      context.font = font;
      context.fillStyle = colour("text");
      context.textAlign = "right";
      context.textBaseline = "middle";
      map.labels.forEach((label, row) => {
        context.fillText(short(label), widest, margin + (row + 0.5) * square);
      });
      context.textAlign = "left";
      map.labels.forEach((label, column) => {
        context.save();
        context.translate(margin + (column + 0.5) * square, widest);
        context.rotate(-Math.PI / 2);
        context.fillText(short(label), 0, 0);
        context.restore();
      });
    }
    if (cursor) {
      const [x, y] = [margin + cursor.column * square, margin + cursor.row * square];
      context.lineWidth = 2;
      context.strokeStyle = colour("text");
      context.strokeRect(x - 1, y - 1, square + 1, square + 1);
    }
  };

  const say = () => {
    const tally = at.get(cursor.row * size + cursor.column);
    const parts = [];
    if (tally) {
      const [tried, failed, outcome, slower, latency, bandwidth] = tally;
      if (failed) parts.push(`${number.format(failed)} of ${counted(tried, "pair")} failed: ${outcome}`);
      else parts.push(`${counted(tried, "pair")} passed`);
      if (slower !== null) parts.push(`${slower.toFixed(2)} × the usual`);
      if (latency !== null) parts.push(`${latency.toFixed(2)} µs`);
      if (bandwidth !== null) parts.push(`${bandwidth.toFixed(1)} Gb/s`);
    } else parts.push("not tried");
    byId("square").textContent = `${map.labels[cursor.row]} → ${map.labels[cursor.column]}: ${parts.join(", ")}`;
  };

  const go = (row, column) => {
    cursor = { row, column };
    paint();
    say();
    const { square, left } = shape;
    const x = left + column * square;
    if (x < box.scrollLeft) box.scrollLeft = x - square;
    if (x + square > box.scrollLeft + box.clientWidth) box.scrollLeft = x + 2 * square - box.clientWidth;
  };

  /** The next square that was tried, from the cursor or from outside of the row. */
  const next = (row, column, down, right) => {
    let [y, x] = [row + down, column + right];
    while (y >= 0 && y < size && x >= 0 && x < size) {
      if (at.has(y * size + x)) return go(y, x);
      [y, x] = [y + down, x + right];
    }
    return undefined;
  };

  const KEYS = {
    ArrowUp: ({ row, column }) => next(row, column, -1, 0),
    ArrowDown: ({ row, column }) => next(row, column, 1, 0),
    ArrowLeft: ({ row, column }) => next(row, column, 0, -1),
    ArrowRight: ({ row, column }) => next(row, column, 0, 1),
    Home: ({ row }) => next(row, -1, 0, 1),
    End: ({ row }) => next(row, size, 0, -1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || !map.squares.length) return;
    event.preventDefault();
    if (cursor) KEYS[event.key](cursor);
    else go(map.squares[0][0], map.squares[0][1]);
  });
  canvas.addEventListener("pointermove", (event) => {
    const { square, left, top } = shape;
    const row = Math.floor((event.offsetY - top) / square);
    const column = Math.floor((event.offsetX - left) / square);
    const inside = row >= 0 && row < size && column >= 0 && column < size;
    if (!inside || (cursor && cursor.row === row && cursor.column === column)) return;
    go(row, column);
  });

  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    paint();
  }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
})();
