import { crc32, deflateSync } from 'node:zlib';
import type { Picture } from './decode-png.ts';

export type Frame = { picture: Picture; durationMs: number };

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
const KEEP = 0;
const OVER = 1;

/**
 * Pictures of one size as an animated PNG that plays again and again: every pixel as it was. A frame holds
 * what has changed since the one before, and nothing where that stays. https://www.w3.org/TR/png-3/#apng-frame-based-animation
 */
export function encodeApng(frames: readonly Frame[]): Buffer {
  const [first] = frames;
  if (first === undefined) throw new Error('An animation takes one frame at least.');
  const { width, height } = first.picture;
  const chunks = [
    chunk('IHDR', words(width, height), [8, 6, 0, 0, 0]),
    chunk('acTL', words(frames.length, 0)),
  ];
  let sequence = 0;
  for (const [index, { picture, durationMs }] of frames.entries()) {
    const box = index === 0 ? { x: 0, y: 0, width, height } : findChange(frames[index - 1]?.picture, picture);
    const place = words(sequence++, box.width, box.height, box.x, box.y);
    chunks.push(
      chunk('fcTL', place, shorts(durationMs, 1_000), [KEEP, index === 0 ? KEEP : OVER]),
      index === 0
        ? chunk('IDAT', pack(picture, box))
        : chunk('fdAT', words(sequence++), pack(picture, box, frames[index - 1]?.picture)),
    );
  }
  return Buffer.concat([SIGNATURE, ...chunks, chunk('IEND')]);
}

type Box = { x: number; y: number; width: number; height: number };

/** The smallest box around all pixels that differ; one pixel where none does. */
function findChange(before: Picture | undefined, { width, height, rgba }: Picture): Box {
  const [now, then] = [pixelsOf(rgba), pixelsOf(before?.rgba ?? rgba)];
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let at = 0; at < now.length; at++) {
    if (now[at] === then[at]) continue;
    const [x, y] = [at % width, Math.floor(at / width)];
    [left, right] = [Math.min(left, x), Math.max(right, x)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
  }
  if (right < 0) return { x: 0, y: 0, width: 1, height: 1 };
  return { x: left, y: top, width: right - left + 1, height: bottom - top + 1 };
}

function pixelsOf({ buffer, byteOffset, byteLength }: Uint8Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

/** A box of a picture; transparent where it is as before. */
function pack(picture: Picture, box: Box, before?: Picture): Buffer {
  const now = pixelsOf(picture.rgba);
  const then = before === undefined ? null : pixelsOf(before.rgba);
  const stride = box.width * 4;
  const rows = Buffer.alloc((stride + 1) * box.height);
  const pixels = new Uint32Array(box.width);
  const bytes = new Uint8Array(pixels.buffer);
  let above = new Uint8Array(stride);
  for (let y = 0; y < box.height; y++) {
    const from = (box.y + y) * picture.width + box.x;
    for (let x = 0; x < box.width; x++)
      pixels[x] = then?.[from + x] === now[from + x] && then !== null ? 0 : (now[from + x] ?? 0);
    rows.set(filterRow(bytes, above), y * (stride + 1));
    above = bytes.slice();
  }
  return deflateSync(rows, { level: 9, memLevel: 9 });
}

/** As it is, or as the difference to the row above, whichever has fewer bytes that are not zero. */
function filterRow(row: Uint8Array, above: Uint8Array): Uint8Array {
  const plain = Uint8Array.of(0, ...row);
  const up = Uint8Array.of(2, ...row.map((byte, at) => byte - (above[at] ?? 0)));
  return countSet(up) < countSet(plain) ? up : plain;
}

function countSet(bytes: Uint8Array): number {
  let set = 0;
  for (const byte of bytes) if (byte !== 0) set += 1;
  return set;
}

function chunk(type: string, ...parts: (Uint8Array | readonly number[])[]): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), ...parts.map(part => Buffer.from(part))]);
  return Buffer.concat([words(body.length - 4), body, words(crc32(body))]);
}

function words(...values: number[]): Buffer {
  const buffer = Buffer.alloc(values.length * 4);
  for (const [at, value] of values.entries()) buffer.writeUInt32BE(value, at * 4);
  return buffer;
}

function shorts(...values: number[]): Buffer {
  const buffer = Buffer.alloc(values.length * 2);
  for (const [at, value] of values.entries()) buffer.writeUInt16BE(value, at * 2);
  return buffer;
}
