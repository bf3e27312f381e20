import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

const KEY_BYTES = 32;

/** The key for the runs of a database file, kept beside it; a new one for a database in memory. */
export function stateKeyOf(database: string): Uint8Array {
  return database === ':memory:' ? randomBytes(KEY_BYTES) : readStateKey(`${database}.mcp-key`);
}

/**
 * Returns the key in `file`; creates it with a random one, readable by its owner only. Of several processes that create
 * it at once, all return the same key. Throws Node's errors, and an `Error` for a file that is not a key.
 */
function readStateKey(file: string): Uint8Array {
  const known = readKey(file);
  if (known !== undefined) return known;
  const own = `${file}.${randomBytes(8).toString('hex')}`;
  writeFileSync(own, randomBytes(KEY_BYTES).toString('hex'), { mode: 0o600, flag: 'wx' });
  try {
    linkSync(own, file);
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error;
  } finally {
    rmSync(own, { force: true });
  }
  return readKey(file) ?? readStateKey(file);
}

function readKey(file: string): Uint8Array | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
  const key = Buffer.from(text.trim(), 'hex');
  if (key.length === KEY_BYTES) return key;
  throw new Error(
    `${file} is not a key: expected ${KEY_BYTES} bytes in hexadecimal. Delete it to make a new one.`,
  );
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
