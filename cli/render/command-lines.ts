import { hasDuties } from '../../machines/duties.ts';
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
  decide(open: OpenItem): string[] {
    const { kind, runId, callId, digest } = open;
    const who = kind === 'result' ? [] : nameDecider(open);
    const reject = `${this.of('reject', runId, callId, ...who)} --reason TEXT`;
    switch (kind) {
      case 'approval':
        return [this.of('approve', runId, callId, '--digest', digest, ...who), reject];
      case 'review':
        return [`${this.of('approve', runId, callId, '--digest', digest, ...who)} [--answer TEXT]`, reject];
      case 'question':
        return [`${this.of('answer', runId, callId, '--digest', digest, ...who)} --answers JSON`, reject];
      case 'result':
        return [`${this.of('answer', runId, callId)} --output JSON`];
      case 'doubt':
        return [
          `${this.of('resolve', runId, callId, ...who)} --retry [--force] | --happened JSON | --failed TEXT`,
        ];
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

/** The options that say who decides, for what is not for everyone to decide. One group is enough. */
function nameDecider(open: OpenItem): string[] {
  const [group] = open.by ?? [];
  return hasDuties(open) ? ['--by', 'NAME', ...(group === undefined ? [] : ['--group', group])] : [];
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
