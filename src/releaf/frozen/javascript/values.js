// Checksum of a file, and values as messages show them.

const TABLE = Uint32Array.from({ length: 256 }, (_, code) => {
  for (let bit = 0; bit < 8; bit++) code = code & 1 ? 0xedb88320 ^ (code >>> 1) : code >>> 1;
  return code;
});

/** CRC-32 of a JSON value: numbers as float64, texts in UTF-8, keys sorted. White space does not matter. */
export function checksum(value) {
  const double = new DataView(new ArrayBuffer(8)), bytes = new Uint8Array(double.buffer), encode = new TextEncoder();
  let code = 0xffffffff;
  const add = (part) => { for (const byte of part) code = TABLE[(code ^ byte) & 255] ^ (code >>> 8); };
  const text = (value) => add(encode.encode(value));
  (function walk(value) {
    if (typeof value === "number") double.setFloat64(0, value, true), add(bytes);
    else if (typeof value === "string") text(`"${value}"`);
    else if (value === null || typeof value === "boolean") text(String(value)[0]);
    else if (Array.isArray(value)) text("["), value.forEach(walk), text("]");
    else text("{"), Object.keys(value).sort().forEach((key) => (walk(key), walk(value[key]))), text("}");
  })(value);
  return ((code ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}

export const tuple = (values) => `(${values.map(shown).join(", ")}${values.length === 1 ? "," : ""})`;

/** A value as Python writes it, so that messages are the same everywhere. */
export function shown(value) {
  if (value == null) return "None";
  if (value === true || value === false) return value ? "True" : "False";
  const small = typeof value === "number" && value !== 0 && Math.abs(value) < 1e-4; // Python writes an exponent from there on
  if (typeof value === "number") return (small ? value.toExponential() : String(value)).replace("NaN", "nan").replace("Infinity", "inf").replace(/e([+-])(\d)$/, "e$10$2");
  if (Array.isArray(value)) return `[${value.map(shown).join(", ")}]`;
  if (typeof value !== "string") return typeof value === "object" && !(value instanceof Date) ? `{${Object.entries(value).map(([key, one]) => `${shown(key)}: ${shown(one)}`).join(", ")}}` : String(value);
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
  const escaped = value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t");
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}
