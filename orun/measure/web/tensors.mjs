// Tensors as JSON: {type, dims, data}. The bytes are base64, texts an array.

export const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: globalThis.Float16Array ?? Uint16Array,
  int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
  int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
};

// Return a tensor of onnxruntime-web, of its class `Tensor`.
export function decode({ type, dims, data }, Tensor) {
  if (type === "string") return new Tensor("string", data, dims);
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  return new Tensor(type, new ARRAYS[type](bytes.buffer), dims);
}

export function encode({ type, dims, data }) {
  if (type === "string") return { type, dims, data: [...data] };
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let text = "";
  for (let start = 0; start < bytes.length; start += 32768) {
    text += String.fromCharCode(...bytes.subarray(start, start + 32768));
  }
  return { type, dims, data: btoa(text) };
}
