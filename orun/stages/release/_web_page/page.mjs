// A form for the inputs of a model, which runs in this page. `page.json` describes the model.
import { ARRAYS, decode, encode } from "./tensors.mjs";

const MOST_SHOWN = 256; // values of the example in a text field
const LARGEST = 10; // values of an output in its table
const FLAGS = new Map([["true", 1], ["1", 1], ["false", 0], ["0", 0]]); // words of a boolean tensor

const page = await (await fetch("page.json")).json();
const module = await import(page.runtime);
const ort = module.default ?? module;

const CONTROLS = { image: imageControl, text: textControl, numbers: numbersControl };
const form = document.querySelector("form");
const axes = new Map(); // name of a dynamic axis -> its field
const controls = page.inputs.map(makeControl);
let session;

// A promise for the model, and one for the outputs of the latest run, as `tensors.mjs` encodes them.
export const ready = start();
export let latest;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  latest = run();
});

async function start() {
  document.title = page.title;
  document.querySelector("h1").textContent = page.title;
  document.querySelector("#inputs").append(...controls.map((control) => control.element));
  try {
    const externalData = page.externalData.map((path) => ({ path, data: path }));
    session = await ort.InferenceSession.create(page.model, externalData.length ? { externalData } : {});
  } catch (error) {
    say("failed", `The model cannot be opened: ${error.message}`);
    throw error;
  }
  const threads = ort.env.wasm.numThreads;
  const why = globalThis.crossOriginIsolated ? "" : ", because the server sends no headers for cross-origin isolation";
  document.querySelector("#about").textContent =
    `${page.about}, ${threads === 1 ? `one thread${why}` : `${threads} threads`}.`;
  form.querySelector("button").disabled = false;
  say("ready", "The model runs in this page. What you enter does not leave it.");
}

async function run() {
  say("running", "Running");
  try {
    const feeds = {};
    for (const [place, input] of page.inputs.entries()) {
      const dims = input.shape.map((axis) => (typeof axis === "number" ? axis : Number(axes.get(axis).value)));
      feeds[input.name] = new ort.Tensor(input.type, await controls[place].read(dims), dims);
    }
    const begin = performance.now();
    const outputs = await session.run(feeds);
    const milliseconds = performance.now() - begin;
    const shown = page.outputs.flatMap((name) => showOutput(name, outputs[name]));
    document.querySelector("#outputs").replaceChildren(...shown);
    say("done", `Done in ${milliseconds.toFixed(1)} ms`);
    return Object.fromEntries(page.outputs.map((name) => [name, encode(outputs[name])]));
  } catch (error) {
    say("failed", error.message);
    return null;
  }
}

function say(state, text) {
  document.body.dataset.state = state;
  document.querySelector("#status").textContent = text;
}

// The fields of an input: {element, read}; `read` returns the data of a tensor of these sizes.
function makeControl(input, place) {
  const example = page.example[place];
  const element = document.createElement("fieldset");
  element.append(make("legend", `${input.name}: ${input.type} [${input.shape.join(", ")}]`));
  for (const [index, axis] of input.shape.entries()) {
    if (typeof axis === "number" || axes.has(axis)) continue;
    const field = Object.assign(document.createElement("input"), { type: "number", min: 0, value: example.dims[index] });
    const label = make("label", `${axis} `);
    label.append(field);
    axes.set(axis, field);
    element.append(label);
  }
  const { fields, read } = CONTROLS[input.control](input, example);
  element.append(...fields);
  return {
    element,
    async read(dims) {
      if (input.type === "float16" && !globalThis.Float16Array) throw new Error("This browser has no Float16Array.");
      const values = await read(dims);
      const count = dims.reduce((product, size) => product * size, 1);
      if (values.length !== count) {
        throw new Error(`${input.name} takes ${count} values for [${dims.join(", ")}], and has ${values.length}`);
      }
      return values;
    },
  };
}

function textControl(input, example) {
  const area = makeArea(input, example.data.join("\n"), "one text on each line");
  return { fields: [area], read: () => area.value.split("\n") };
}

function numbersControl(input, example) {
  const count = example.dims.reduce((product, size) => product * size, 1);
  const { data } = decode(example, ort.Tensor);
  const shown = count <= MOST_SHOWN;
  const area = makeArea(input, shown ? [...data].join(" ") : "", shown ? "numbers" : `the ${count} values of the example`);
  return {
    fields: [area],
    read() {
      const words = area.value.match(/[^\s,;[\]]+/g) ?? [];
      return words.length || shown ? ARRAYS[input.type].from(words, (word) => toNumber(input.type, word)) : data;
    },
  };
}

// A picture, scaled to the size of the input; until one is chosen, the values of the example.
function imageControl(input, example) {
  const file = Object.assign(document.createElement("input"), { type: "file", accept: "image/*", ariaLabel: input.name });
  const canvas = Object.assign(document.createElement("canvas"), { hidden: true });
  const { height, width } = input.image;
  return {
    fields: [file, canvas],
    async read(dims) {
      if (!file.files.length) return decode(example, ort.Tensor).data;
      [canvas.width, canvas.height] = [dims[width], dims[height]];
      const context = canvas.getContext("2d");
      context.drawImage(await createImageBitmap(file.files[0]), 0, 0, canvas.width, canvas.height);
      canvas.hidden = false;
      const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
      return toTensorData(pixels, dims, input);
    },
  };
}

// Arrange the pixels of a canvas as [1, C, H, W] or [1, H, W, C], and scale them as `page.json` says.
function toTensorData(pixels, dims, { type, image: { channel, scale, offset } }) {
  const channels = dims[channel];
  const area = pixels.length / 4;
  const data = new ARRAYS[type](channels * area);
  for (let pixel = 0; pixel < area; pixel++) {
    for (let index = 0; index < channels; index++) {
      const [red, green, blue] = pixels.subarray(4 * pixel, 4 * pixel + 3);
      const value = channels === 1 ? 0.299 * red + 0.587 * green + 0.114 * blue : pixels[4 * pixel + index];
      const place = channel === 1 ? index * area + pixel : pixel * channels + index;
      data[place] = value * scale[index] + offset[index];
    }
  }
  return data;
}

// The number that a word stands for. A typed array would change in silence what its type does not hold.
function toNumber(type, word) {
  if (type === "bool") {
    if (!FLAGS.has(word.toLowerCase())) throw new Error(`${word} is not true, false, 1 or 0`);
    return FLAGS.get(word.toLowerCase());
  }
  if (type.startsWith("float")) {
    const value = Number(word);
    if (Number.isNaN(value) && word.toLowerCase() !== "nan") throw new Error(`${word} is not a number`);
    return value;
  }
  if (!/^[+-]?\d+$/.test(word)) throw new Error(`${word} is not a whole number`);
  const value = BigInt(word);
  const bits = 8 * ARRAYS[type].BYTES_PER_ELEMENT;
  const held = type.startsWith("int") ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
  if (held !== value) throw new Error(`${word} does not fit into ${type}`);
  return bits === 64 ? value : Number(value);
}

function makeArea(input, value, placeholder) {
  return Object.assign(document.createElement("textarea"), { value, placeholder, ariaLabel: input.name, spellcheck: false });
}

function make(name, text) {
  return Object.assign(document.createElement(name), { textContent: text });
}

// A heading and a table: the largest values of a vector of numbers, else the first values.
function showOutput(name, { type, dims, data }) {
  const values = [...data].map((value, index) => [index, value]);
  const ranked = type.startsWith("float") && values.length === dims.at(-1);
  if (ranked) values.sort(([, one], [, other]) => other - one);
  const table = document.createElement("table");
  for (const [index, value] of values.slice(0, LARGEST)) {
    const row = table.insertRow();
    row.insertCell().textContent = index;
    row.insertCell().textContent = type.startsWith("float") ? Number(value).toPrecision(6) : value;
  }
  const more = values.length > LARGEST ? `, the ${ranked ? "largest" : "first"} ${LARGEST} of ${values.length} values` : "";
  return [make("h2", name), make("p", `${type} [${dims.join(", ")}]${more}`), table];
}
