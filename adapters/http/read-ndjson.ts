import { LineScanner } from './line-scanner.ts';

/** The lines of an `application/x-ndjson` stream, however its bytes are cut; blank lines give nothing. */
export async function* readNdjson(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  const scanner = new LineScanner();
  const lines: string[] = [];
  for await (const chunk of chunks) {
    scanner.push(decoder.decode(chunk, { stream: true }), lines);
    for (const line of lines) if (line.trim() !== '') yield line;
    lines.length = 0;
  }
  scanner.push(decoder.decode(), lines);
  for (const line of [...lines, scanner.rest()]) if (line.trim() !== '') yield line;
}
