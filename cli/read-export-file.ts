import { createReadStream } from 'node:fs';
import { ExportedBlobs } from '../engine/replay/export-blobs.ts';
import { readExport, type UncheckedExport } from '../engine/replay/read-export.ts';
import { EngineError, messageOf } from '../protocol/error.ts';

/**
 * An export: one JSON document, and behind it a line for each part of its large results, of which one is in
 * memory at a time. Throws `input-invalid`.
 */
export async function readExportFile(
  file: string,
): Promise<{ exported: UncheckedExport; blobs: ExportedBlobs }> {
  const document: string[] = [];
  const blobs = new ExportedBlobs();
  let exported: UncheckedExport | undefined;
  for await (const line of readLines(file)) {
    if (exported !== undefined) {
      if (line !== '') blobs.take(line, file);
      continue;
    }
    document.push(line);
    const isWhole = line === '}' || (document.length === 1 && line.startsWith('{') && line.endsWith('}'));
    if (isWhole) exported = readExport(document.join('\n'), file);
  }
  return { exported: exported ?? readExport(document.join('\n'), file), blobs };
}

async function* readLines(file: string): AsyncGenerator<string> {
  let pending: string[] = [];
  for await (const chunk of readChunks(file)) {
    const [first = '', ...others] = chunk.split('\n');
    pending.push(first);
    for (const next of others) {
      yield pending.join('');
      pending = [next];
    }
  }
  yield pending.join('');
}

async function* readChunks(file: string): AsyncGenerator<string> {
  try {
    for await (const chunk of createReadStream(file, 'utf8')) yield String(chunk);
  } catch (cause) {
    const message = `Expected a run or the file of an export, and ${file} cannot be read: ${messageOf(cause)}.`;
    throw new EngineError('input-invalid', message, { file }, { cause });
  }
}
