import type { OpenCall } from '../../engine/run/settled.ts';
import { DEFAULT_STORE } from '../open-store.ts';
import { formatPath, formatStore, isDatabase } from './format-path.ts';

/** Builds the commands that messages suggest, ready to paste into the same shell. */
export class CommandLines {
  readonly #program: string;
  readonly #store: string[];

  constructor(file: string) {
    this.#program = programName();
    const isKnown = file === DEFAULT_STORE || (isDatabase(file) && file === process.env.AGENTCHART_DB);
    this.#store = isKnown ? [] : ['--db', isDatabase(file) ? formatStore(file) : file];
  }

  /** Returns the command that approves a call, bound to its digest. */
  approve({ runId, callId, digest }: OpenCall): string {
    return this.of('approve', runId, callId, '--digest', digest);
  }

  /** Returns the command that rejects a call. */
  reject({ runId, callId }: OpenCall): string {
    return `${this.of('reject', runId, callId)} --reason TEXT`;
  }

  /** Returns the command that supplies the result of a call. */
  answer({ runId, callId }: OpenCall): string {
    return `${this.of('answer', runId, callId)} --output JSON`;
  }

  /** Returns the command that resolves a call in doubt. */
  resolve({ runId, callId }: OpenCall): string {
    return `${this.of('resolve', runId, callId)} --retry [--force] | --happened JSON | --failed TEXT`;
  }

  /** Returns the command that prints the full result of a call. */
  result(runId: string, callId: string): string {
    return this.of('show', runId, '--result', callId);
  }

  /** Returns `agentchart WORDS` with `--db` if needed, quoted for a shell. */
  of(...words: string[]): string {
    return [this.#program, ...[...words, ...this.#store].map(quoteWord)].join(' ');
  }
}

function programName(): string {
  const [, script = ''] = process.argv;
  if (process.env.npm_lifecycle_event === 'agentchart') return 'npm run -s agentchart --';
  if (process.env.npm_command === 'exec') return 'npx agentchart';
  return script.endsWith('.ts') ? `node ${quoteWord(formatPath(script))}` : 'agentchart';
}

function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
