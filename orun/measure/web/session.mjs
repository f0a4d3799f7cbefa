// A model run by onnxruntime-web, on requests as JSON. The same module runs in Node.js and in a browser.
import { decode, encode } from "./tensors.mjs";

let ort;
let session;
let feed;

// Answer `{method, arguments}` with `{result}`, or `{error}` if it fails.
export async function answer(request) {
  try {
    return { result: await METHODS[request.method](...request.arguments) };
  } catch (error) {
    return { error: String(error?.message ?? error) };
  }
}

const METHODS = { open, bind, run, time, rest: () => null };

// Start the runtime and open a model: {runtime, model, externalData, threads}, addresses or paths. Load time in ms.
async function open(options) {
  const start = performance.now();
  const module = await import(options.runtime);
  ort = module.default ?? module;
  ort.env.wasm.numThreads = options.threads;
  ort.env.logLevel = "error";
  const { externalData } = options;
  session = await ort.InferenceSession.create(options.model, externalData.length ? { externalData } : {});
  return {
    load: performance.now() - start,
    threads: ort.env.wasm.numThreads,
    host: globalThis.navigator?.userAgent ?? `Node.js ${process.versions.node}`,
  };
}

// Keep the inputs of `time`.
function bind(tensors) {
  feed = decodeAll(tensors);
}

async function run(tensors) {
  const outputs = await session.run(decodeAll(tensors));
  return Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, encode(tensor)]));
}

// Time `count` inferences, or as many as begin within `seconds`: milliseconds of each, and of the process's CPU time
// where that can be read.
async function time(count, seconds) {
  const wall = [];
  const cpu = [];
  const end = performance.now() + 1000 * (seconds ?? Infinity);
  do {
    const before = readCpu();
    const start = performance.now();
    await session.run(feed);
    wall.push(performance.now() - start);
    if (before !== null) cpu.push(readCpu() - before);
  } while (wall.length < count && performance.now() < end);
  return { wall, cpu };
}

function readCpu() {
  if (!globalThis.process?.cpuUsage) return null;
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function decodeAll(tensors) {
  return Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, decode(tensor, ort.Tensor)]));
}
