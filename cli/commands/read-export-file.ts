import { constants, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { ExportedBlobs, readExport, type UncheckedExport } from '../../engine/replay/read-export.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { formatPath } from '../render/format.ts';

export type ExportFile = { exported: UncheckedExport; blobs: ExportedBlobs };

/** Whether the argument names a file: it exists, or its form rules out a run id. A folder may have the name of a run. */
export function isFile(named: string): boolean {
  const found = statSync(named, { throwIfNoEntry: false });
  return found?.isDirectory() === false || /[\\/]|\.json$/.test(named);
}

/** Reads an exported file; `onPart` gets the parts of its large results. Throws `input-invalid`. */
export async function readExportFile(
  file: string,
  onPart: (part: { blob: string; text: string }) => void = () => {},
): Promise<ExportFile> {
  const document: string[] = [];
  const blobs = new ExportedBlobs();
  let exported: UncheckedExport | undefined;
  for await (const line of readLines(file)) {
    if (exported !== undefined) {
      if (line !== '') onPart(blobs.take(line, file));
      continue;
    }
    document.push(line);
    const isComplete = line === '}' || (document.length === 1 && line.startsWith('{') && line.endsWith('}'));
    if (isComplete) exported = readExport(document.join('\n'), file);
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

/** Refuses what is not a regular file: reading a FIFO or a device may wait forever. */
async function* readChunks(file: string): AsyncGenerator<string> {
  try {
    const opened = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    try {
      if (!(await opened.stat()).isFile()) throw new Error('it is not a regular file');
      const chunks = opened.createReadStream({ encoding: 'utf8', autoClose: false });
      for await (const chunk of chunks) yield String(chunk);
    } finally {
      await opened.close();
    }
  } catch (cause) {
    const message = `Cannot read ${formatPath(file)}: ${messageOf(cause)}. Expected a run id or an exported file.`;
    throw new EngineError('input-invalid', message, { file }, { cause });
  }
}
