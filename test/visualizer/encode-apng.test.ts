import { expect, test } from 'vitest';
import { decodePng, type Picture } from '../support/visualizer/decode-png.ts';
import { encodeApng } from '../support/visualizer/encode-apng.ts';

const BLUE = [20, 40, 200, 255];
const RED = [200, 20, 20, 255];

function paint(width: number, height: number, colourAt: (x: number, y: number) => number[]): Picture {
  const rgba = new Uint8Array(width * height * 4);
  for (let at = 0; at < width * height; at++) rgba.set(colourAt(at % width, Math.floor(at / width)), at * 4);
  return { width, height, rgba };
}

function readChunks(png: Buffer): { type: string; data: Buffer }[] {
  const chunks = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at))
    chunks.push({
      type: png.toString('latin1', at + 4, at + 8),
      data: png.subarray(at + 8, at + 8 + png.readUInt32BE(at)),
    });
  return chunks;
}

test('the first frame is the picture that a reader without animations shows, byte for byte', () => {
  const picture = paint(7, 5, (x, y) => [x * 30, y * 40, (x * y * 17) % 256, 255]);
  const png = encodeApng([
    { picture, durationMs: 100 },
    { picture: paint(7, 5, () => RED), durationMs: 100 },
  ]);
  expect(decodePng(png)).toEqual(picture);
});

test('a later frame holds the box that has changed, and how long it stays', () => {
  const still = paint(9, 9, () => BLUE);
  const moved = paint(9, 9, (x, y) => (x >= 2 && x <= 4 && y === 6 ? RED : BLUE));
  const png = encodeApng([
    { picture: still, durationMs: 300 },
    { picture: moved, durationMs: 70 },
    { picture: moved, durationMs: 50 },
  ]);
  const chunks = readChunks(png);
  expect(chunks.map(({ type }) => type)).toEqual([
    'IHDR',
    'acTL',
    'fcTL',
    'IDAT',
    'fcTL',
    'fdAT',
    'fcTL',
    'fdAT',
    'IEND',
  ]);
  const boxes = chunks
    .filter(({ type }) => type === 'fcTL')
    .map(({ data }) => [4, 8, 12, 16].map(at => data.readUInt32BE(at)).concat(data.readUInt16BE(20)));
  expect(boxes).toEqual([
    [9, 9, 0, 0, 300],
    [3, 1, 2, 6, 70],
    [1, 1, 0, 0, 50],
  ]);
});

test('a picture with 16 bits a channel is refused', () => {
  const png = encodeApng([{ picture: paint(1, 1, () => RED), durationMs: 1 }]);
  png[24] = 16;
  expect(() => decodePng(png)).toThrow('Expected 8 bits');
});
