import { drivesOf } from '../../engine/driver/drives.ts';
import { systemHost } from '../../engine/host/host.ts';
import { invalidInput, messageOf } from '../../protocol/error.ts';
import type { Store } from '../../protocol/store.ts';
import type { AccessRecord } from '../../server/access/request-record.ts';
import type { RunsApp } from '../../server/app.ts';
import { type Serving, serveRuns } from '../../server/serve.ts';
import { untilInterrupted } from '../process-end.ts';
import { formatSafeJson } from '../render/format.ts';
import { Output } from '../render/output.ts';

/** `text`: lines for people. `json`: one JSON object per line, also for each request. */
export type LogFormat = 'text' | 'json';

export class ServerLog {
  readonly #output = new Output({ json: false });
  readonly #format: LogFormat;

  constructor(format: LogFormat) {
    this.#format = format;
  }

  readonly problem = (message: string): void => this.#write('warn', message);
  readonly notice = (message: string): void => this.#write('info', message);

  /** Writes the record of a request; `undefined` in text, which shows problems only. */
  get reportRequest(): ((record: AccessRecord) => void) | undefined {
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

function levelOf({ status }: AccessRecord): string {
  if (status >= 500) return 'error';
  return status >= 400 ? 'warn' : 'info';
}

/** Returns the format that `--log` or `AGENTCHART_LOG` asks for; default `text`. Throws `input-invalid` for another. */
export function readFormat(option: string | undefined): LogFormat {
  const format = option ?? (process.env.AGENTCHART_LOG || 'text');
  if (format === 'text' || format === 'json') return format;
  throw invalidInput(`--log (or AGENTCHART_LOG) must be "text" or "json", got "${format}".`);
}

/** How long tool servers and unresponsive tools may delay the exit of the process, in ms. */
const EXIT_GRACE_MS = 2_000;

/**
 * Ends a process that drives runs: it takes no other, lets calls in progress end within `graceMs`, and releases the
 * leases of its runs, so that other processes continue with them at once. Probes are answered meanwhile. Then closes the store, and after it the tool
 * servers, so that a call that fails because its server ends is not recorded as failed.
 */
export async function shutDown({
  store,
  serving,
  graceMs,
  closing,
  log,
}: {
  store: Store;
  serving: Pick<Serving, 'close'> & Partial<Pick<Serving, 'drain'>>;
  graceMs: number;
  closing: readonly { close(): Promise<void> }[];
  log: { problem(line: string): void };
}): Promise<void> {
  serving.drain?.();
  const kept = await drivesOf(store).drain(systemHost, graceMs);
  await serving.close();
  if (kept > 0)
    log.problem(`${kept} runs could not be handed over: the store does not answer. Their leases expire.`);
  setTimeout(() => process.exit(), EXIT_GRACE_MS).unref();
  await store.close();
  await Promise.allSettled(closing.map(each => each.close()));
}

/** Resolves at the first SIGINT or SIGTERM, and says so; a second one exits at once. */
export async function untilStopped(log: ServerLog): Promise<void> {
  await untilInterrupted();
  log.notice('Stopping; calls in progress may end. Press Ctrl-C again to exit now.');
}

/** Serves an app. Returns `null` if it cannot listen, and logs what to do. */
export async function listen(
  app: RunsApp,
  address: { host: string; port: number },
  log: ServerLog,
): Promise<Serving | null> {
  try {
    return await serveRuns(app, address);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const advice =
      code === 'EADDRINUSE'
        ? 'The port is in use, perhaps by another agentchart. Stop that program, or choose another port: --port 0 picks a free one.'
        : `${messageOf(error)}. Choose another --host or --port.`;
    log.problem(`Cannot listen on ${address.host} port ${address.port}. ${advice}`);
    return null;
  }
}
