// Encoding of a context: each kind of feature gives a function from a value to numbers, or to null if it is invalid.

import { shown } from "./values.js";

const DAY = 86_400_000_000n; // microseconds
const TRUE = ["true", "yes", "y", "t", "on", "1", "1.0"], FALSE = ["false", "no", "n", "f", "off", "0", "0.0"];
const ISO = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d))?(?:[.,](\d+))?(?: ?(Z|[Uu][Tt][Cc])| ?([+-]\d\d:?\d\d)|([+-]\d\d(?::\d\d:\d\d(?:\.\d+)?)?))?)?)?$/;
const KINDS = { continuous, quantile, categorical, boolean, datetime };

export function encoder(feature) {
  const { name, expects, when_missing: whenMissing, values = [] } = feature, toUnits = KINDS[feature.kind](feature);
  return (value) => {
    if (isMissing(value) && !values.includes(value)) { // blank text may be a category
      if (whenMissing === null) throw new RangeError(`feature ${shown(name)} is missing (${shown(value)}): expected ${expects}`);
      return whenMissing;
    }
    const units = toUnits(value);
    if (units === null) throw new RangeError(`feature ${shown(name)} is ${shown(value)}: expected ${expects}`);
    return units;
  };
}

const isMissing = (value) => value == null || Number.isNaN(value) || (typeof value === "string" && /^[ \t\r\n]*$/.test(value));

const number = (value) => (["number", "boolean", "bigint"].includes(typeof value) ? Number(value) : NaN);

function continuous({ low, high, clip }) {
  return (value) => {
    let given = number(value);
    if (clip) given = Math.min(Math.max(given, low), high);
    return low <= given && given <= high ? [(given - low) / (high - low)] : null;
  };
}

function quantile({ sample }) {
  const count = sample.length;
  return (value) => {
    let given = number(value);
    if (!Number.isFinite(given)) return null;
    const below = firstAbove(sample, given, false), upto = firstAbove(sample, given, true);
    if (count === 0) return [0.5];
    if (below < upto) return [(below + upto) / (2 * count)];
    if (below === 0 || below === count) return [below === count ? 1 : 0];
    let left = sample[below - 1], right = sample[below];
    if (right - left === Infinity) [left, given, right] = [left / 2, given / 2, right / 2];
    return [(below - 0.5 + (given - left) / (right - left)) / count];
  };
}

/** Number of sorted values below a value, or with orEqual also those equal to it. */
export function firstAbove(values, value, orEqual) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value || (orEqual && values[middle] === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function categorical({ values, other, categories }) {
  const key = (value) => (typeof value === "string" ? value : number(value)); // true is 1, as in Python and in the file
  const indices = new Map(values.map((value, index) => [key(value), index]));
  return (value) => {
    const index = typeof value === "object" ? undefined : indices.get(key(value));
    if (index === undefined && !(other && typeof value !== "object")) return null;
    return [((index ?? values.length) + 0.5) / categories];
  };
}

function boolean({ categories }) {
  return (value) => {
    const word = typeof value === "string" ? value.trim().toLowerCase() : null;
    const given = word === null ? number(value) : TRUE.includes(word) ? 1 : FALSE.includes(word) ? 0 : NaN;
    return given === 0 || given === 1 ? [(given + 0.5) / categories] : null;
  };
}

function datetime({ parts, time_zone: zone, missing, start, end }) {
  const low = moment(start ?? "1970-01-01", zone), high = moment(end ?? "1970-01-02", zone), extra = missing ? 1 : 0;
  return (value) => {
    const at = moment(value, zone);
    if (at === null) return null;
    const time = ((at % DAY) + DAY) % DAY, day = Number((at - time) / DAY);
    return parts.flatMap((part) => {
      if (part === "trend") return [Math.min(Math.max(Number(at - low) / Number(high - low), 0), 1)];
      if (part === "weekday") return [((((day + 3) % 7) + 7) % 7 + 0.5) / (7 + extra)];
      if (part === "hour") return [(Number((time * 24n) / DAY) + 0.5) / (24 + extra)];
      const year = new Date(day * 864e5).getUTCFullYear(), first = utc(year, 1, 1) / 864e5;
      const angle = (2 * Math.PI * (day - first)) / (utc(year + 1, 1, 1) / 864e5 - first);
      return [(1 + Math.sin(angle)) / 2, (1 + Math.cos(angle)) / 2];
    });
  };
}

/** Milliseconds from 1970 to a day; NaN if there is no such day. */
function utc(year, month, day) {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCMonth() === month - 1 ? date.getTime() : NaN;
}

/** Microseconds from 1970 to a date or a time, in local time; null if it is none. A Date is a moment in UTC. */
function moment(value, zone) {
  if (value instanceof Date) value = Number.isNaN(value.getTime()) ? "" : value.toISOString();
  const found = typeof value === "string" ? ISO.exec(value.trim()) : null;
  if (!found) return null;
  const [, year, month, day, hour = 0, minute = 0, second = 0, fraction = "", utcName, short, long] = found;
  const midnight = +year >= 1 ? utc(+year, +month, +day) : NaN;
  if (Number.isNaN(midnight) || hour > 23 || minute > 59 || second > 59) return null;
  let local = (BigInt(midnight) + BigInt(hour * 3600000 + minute * 60000 + second * 1000)) * 1000n + BigInt(fraction.slice(0, 6).padEnd(6, "0"));
  if (utcName || short || long) {
    const ahead = offset(utcName ? "+00" : short ?? long);
    if (ahead === null) return null;
    const instant = local - ahead;
    const seconds = (instant - (((instant % 1000000n) + 1000000n) % 1000000n)) / 1000000n;
    local = instant + BigInt(zoneOffset(Number(seconds), zone)) * 1000000n;
    if (local < -62135596800000000n || local >= 253402300800000000n) return null;
  }
  return local;
}

/** Microseconds of an offset such as +01:00; null from 24 hours on. */
function offset(text) {
  const digits = text.replace(/[:.]/g, ""), part = (from, to) => +digits.slice(from, to);
  const total = ((part(1, 3) * 60 + part(3, 5)) * 60 + part(5, 7)) * 1e6 + +digits.slice(7, 13).padEnd(6, "0");
  return total < 86400e6 ? BigInt(text[0] === "-" ? -total : total) : null;
}

const formats = new Map();

/** Offset of a time zone in seconds at an instant, by the time zones of the browser or of node. */
function zoneOffset(seconds, zone) {
  if (zone === "UTC") return 0;
  if (!formats.has(zone)) formats.set(zone, new Intl.DateTimeFormat("en-US-u-ca-iso8601", { timeZone: zone, hourCycle: "h23",
    year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" }));
  const part = Object.fromEntries(formats.get(zone).formatToParts(seconds * 1000).map(({ type, value }) => [type, +value]));
  return utc(part.year, part.month, part.day) / 1000 + part.hour * 3600 + part.minute * 60 + part.second - seconds;
}
