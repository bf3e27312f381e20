import { relative } from 'node:path';
import type { OpenCall } from '../../engine/run/settled.ts';
import { DEFAULT_STORE } from '../open-store.ts';

/** The commands to go on with, as they can be pasted into a shell where this one was given. */
export class CommandLines {
  readonly #program: string;
  readonly #store: string[];

  constructor(file: string) {
    this.#program = programName();
    this.#store = file === DEFAULT_STORE ? [] : ['--db', file];
  }

  approve({ runId, callId, digest }: OpenCall): string {
    return this.of('approve', runId, callId, '--digest', digest);
  }

  reject({ runId, callId }: OpenCall): string {
    return `${this.of('reject', runId, callId)} --reason TEXT`;
  }

  answer({ runId, callId }: OpenCall): string {
    return `${this.of('answer', runId, callId)} --output JSON`;
  }

  resolve({ runId, callId }: OpenCall): string {
    return `${this.of('resolve', runId, callId)} --retry [--force] | --happened JSON | --failed TEXT`;
  }

  result(runId: string, callId: string): string {
    return this.of('show', runId, '--result', callId);
  }

  of(...words: string[]): string {
    return [this.#program, ...[...words, ...this.#store].map(quoteWord)].join(' ');
  }
}

function programName(): string {
  const [, script = ''] = process.argv;
  if (process.env.npm_lifecycle_event === 'agentchart') return 'npm run -s agentchart --';
  if (process.env.npm_command === 'exec') return 'npx agentchart';
  return script.endsWith('.ts') ? `node ${quoteWord(relative(process.cwd(), script))}` : 'agentchart';
}

function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
