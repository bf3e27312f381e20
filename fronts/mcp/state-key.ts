import { createHash, randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { EngineError } from '../../protocol/error.ts';

const KEY_BYTES = 32;

/** The shortest secret of `AGENTCHART_MCP_KEY`, in characters. */
const SHORTEST_SECRET = 32;

/** `secret`, else the key beside the file, else a new one; on a server with a line to `log`. Throws `input-invalid`. */
export function stateKeyOf(
  database: string | undefined,
  log: (line: string) => void,
  secret = process.env.AGENTCHART_MCP_KEY || undefined,
): Uint8Array {
  if (secret !== undefined && secret.length < SHORTEST_SECRET)
    throw new EngineError(
      'input-invalid',
      `The secret of MCP (AGENTCHART_MCP_KEY) must have at least ${SHORTEST_SECRET} characters, got ${secret.length}.`,
    );
  if (secret !== undefined) return createHash('sha256').update(secret).digest();
  if (database === undefined || database === ':memory:') return randomBytes(KEY_BYTES);
  if (!/^postgres(ql)?:/.test(database)) return readStateKey(`${database}.mcp-key`);
  log(
    'AGENTCHART_MCP_KEY is not set: MCP clients cannot answer questions of another process. Set it to the same secret in every process.',
  );
  return randomBytes(KEY_BYTES);
}

/** Several processes that create it at once get the same key. Throws an `Error` for a file that is not a key. */
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
