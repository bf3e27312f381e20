import { inflateSync } from 'node:zlib';

/** `rgba`: four bytes a pixel, rows from the top. */
export type Picture = { width: number; height: number; rgba: Uint8Array };

/** A PNG as browsers write screenshots: 8 bits a channel, with or without alpha, not interlaced. Throws for others. */
export function decodePng(png: Buffer): Picture {
  const chunks = [...readChunks(png)];
  const header = chunks.find(({ type }) => type === 'IHDR')?.data;
  if (header === undefined) throw new Error('This is not a PNG: it has no IHDR.');
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const [depth, colour, , , interlaced] = header.subarray(8);
  if (depth !== 8 || (colour !== 2 && colour !== 6) || interlaced !== 0)
    throw new Error(`Expected 8 bits of RGB or RGBA, got depth ${depth}, colour type ${colour}.`);
  const channels = colour === 6 ? 4 : 3;
  const packed = inflateSync(
    Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data)),
  );
  const bytes = undoFilters(packed, width * channels, height, channels);
  const rgba = new Uint8Array(width * height * 4).fill(255);
  for (let pixel = 0; pixel < width * height; pixel++) {
    for (let channel = 0; channel < channels; channel++)
      rgba[pixel * 4 + channel] = bytes[pixel * channels + channel] ?? 0;
  }
  return { width, height, rgba };
}

function* readChunks(png: Buffer): Generator<{ type: string; data: Buffer }> {
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    yield { type: png.toString('latin1', at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) };
    at += length + 12;
  }
}

function undoFilters(packed: Uint8Array, stride: number, rows: number, step: number): Uint8Array {
  const bytes = new Uint8Array(stride * rows);
  for (let row = 0; row < rows; row++) {
    const filter = packed[row * (stride + 1)];
    for (let x = 0; x < stride; x++) {
      const at = row * stride + x;
      const left = x >= step ? (bytes[at - step] ?? 0) : 0;
      const up = row > 0 ? (bytes[at - stride] ?? 0) : 0;
      const corner = x >= step && row > 0 ? (bytes[at - stride - step] ?? 0) : 0;
      const raw = packed[row * (stride + 1) + 1 + x] ?? 0;
      bytes[at] = raw + predict(filter, left, up, corner);
    }
  }
  return bytes;
}

function predict(filter: number | undefined, left: number, up: number, corner: number): number {
  switch (filter) {
    case 0:
      return 0;
    case 1:
      return left;
    case 2:
      return up;
    case 3:
      return (left + up) >> 1;
    case 4:
      return paeth(left, up, corner);
    default:
      throw new Error(`A PNG has no filter ${filter}.`);
  }
}

function paeth(left: number, up: number, corner: number): number {
  const guess = left + up - corner;
  const [l, u, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  return l <= u && l <= c ? left : u <= c ? up : corner;
}
