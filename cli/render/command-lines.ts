import type { OpenItem } from '../../protocol/run-view.ts';
import { DEFAULT_STORE } from '../options.ts';
import { formatPath, formatStore, isDatabase } from './format.ts';

export class CommandLines {
  readonly #program: string;
  readonly #store: string[];

  constructor(file: string) {
    this.#program = programName();
    const isKnown = file === DEFAULT_STORE || (isDatabase(file) && file === process.env.AGENTCHART_DB);
    this.#store = isKnown ? [] : ['--db', isDatabase(file) ? formatStore(file) : file];
  }

  /** Returns the commands that decide an open call or review. An approval is bound to the digest. */
  decide({ kind, runId, callId, digest }: OpenItem): string[] {
    switch (kind) {
      case 'approval':
        return [
          this.of('approve', runId, callId, '--digest', digest),
          `${this.of('reject', runId, callId)} --reason TEXT`,
        ];
      case 'review':
        return [
          `${this.of('approve', runId, callId, '--digest', digest)} [--answer TEXT]`,
          `${this.of('reject', runId, callId)} --reason TEXT`,
        ];
      case 'question':
        return [
          `${this.of('answer', runId, callId, '--digest', digest)} --answers JSON`,
          `${this.of('reject', runId, callId)} --reason TEXT`,
        ];
      case 'result':
        return [`${this.of('answer', runId, callId)} --output JSON`];
      case 'doubt':
        return [`${this.of('resolve', runId, callId)} --retry [--force] | --happened JSON | --failed TEXT`];
    }
  }

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
