/** Reads a stream as UTF-8. Throws an `Error` beyond `mostBytes`. */
export async function readBounded(
  stream: ReadableStream<Uint8Array> | null,
  mostBytes: number,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream ?? []) {
    bytes += chunk.byteLength;
    if (bytes > mostBytes) throw new Error(`it sent more than ${mostBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
