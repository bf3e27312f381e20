import { systemHost } from '../../../engine/driver/host.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { RequestRecord } from '../../../server/access/request-record.ts';
import { Output } from '../../render/output.ts';
import { formatSafeJson } from '../../render/show-safely.ts';

/** `text`: lines for people. `json`: one JSON object per line, also for each request. */
export type LogFormat = 'text' | 'json';

/** What `agentchart serve` writes to stderr. */
export class ServerLog {
  readonly #output = new Output({ json: false });
  readonly #format: LogFormat;

  constructor(format: LogFormat) {
    this.#format = format;
  }

  /** Writes a problem that the operator should know. */
  problem(message: string): void {
    this.#write('warn', message);
  }

  /** Writes what the server does. */
  notice(message: string): void {
    this.#write('info', message);
  }

  /** Writes the record of a request; `undefined` in text, which shows problems only. */
  get reportRequest(): ((record: RequestRecord) => void) | undefined {
    if (this.#format === 'text') return undefined;
    return record => this.#line(levelOf(record), record);
  }

  #write(level: string, message: string): void {
    if (this.#format === 'text') this.#output.problem(message);
    else this.#line(level, { message });
  }

  #line(level: string, members: object): void {
    const time = new Date(systemHost.now()).toISOString();
    process.stderr.write(`${formatSafeJson({ time, level, ...members })}\n`);
  }
}

function levelOf({ status }: RequestRecord): string {
  if (status >= 500) return 'error';
  return status >= 400 ? 'warn' : 'info';
}

/** Returns the format that `--log` or `AGENTCHART_LOG` asks for; default `text`. Throws `input-invalid` for another. */
export function readFormat(option: string | undefined): LogFormat {
  const format = option ?? (process.env.AGENTCHART_LOG || 'text');
  if (format === 'text' || format === 'json') return format;
  throw new EngineError(
    'input-invalid',
    `--log (or AGENTCHART_LOG) must be "text" or "json", got "${format}".`,
  );
}
