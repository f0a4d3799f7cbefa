// Node.js: a request of session.mjs on each line of standard input, its answer on a line of standard output.
import { createInterface } from "node:readline";
import { answer } from "./session.mjs";

console.log = console.error; // standard output is for answers

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
process.exit(); // threads of the runtime would keep it
