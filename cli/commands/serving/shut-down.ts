import { drivesOf } from '../../../engine/driver/drives.ts';
import { systemHost } from '../../../engine/driver/host.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Serving } from '../../../server/serve.ts';
import { EXIT } from '../../exit-codes.ts';
import { watchInterrupts } from '../../interrupts.ts';
import type { ServerLog } from './serve-log.ts';

/** How long tool servers and unresponsive tools may delay the exit of the process, in ms. */
const EXIT_GRACE_MS = 2_000;

/** The longest grace time, in seconds: process managers kill after half a minute. */
const LONGEST_GRACE = 3_600;

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
  /** What takes requests. */
  serving: Pick<Serving, 'close'> & Partial<Pick<Serving, 'drain'>>;
  graceMs: number;
  /** The owners of tool servers. */
  closing: readonly { close(): Promise<void> }[];
  log: { problem(line: string): void };
}): Promise<void> {
  serving.drain?.();
  const kept = await drivesOf(store).drain(systemHost, graceMs);
  await serving.close();
  if (kept > 0)
    log.problem(`${kept} runs could not be handed over: the store does not answer. Their leases expire.`);
  setTimeout(() => process.exit(EXIT.done), EXIT_GRACE_MS).unref();
  await store.close();
  await Promise.allSettled(closing.map(each => each.close()));
}

/** Reads `--grace`, in seconds; returns ms. Throws `input-invalid`. */
export function readGrace(text: string): number {
  const seconds = Number(text);
  if (text.trim() !== '' && seconds >= 0 && seconds <= LONGEST_GRACE) return seconds * 1_000;
  throw new EngineError(
    'input-invalid',
    `--grace must be a number of seconds from 0 to ${LONGEST_GRACE}, got "${text}".`,
  );
}

/** Resolves at the first SIGINT or SIGTERM; a second one exits at once. */
export function untilInterrupted(log: ServerLog): Promise<void> {
  return new Promise<void>(first => {
    watchInterrupts({ first: () => first(), again: () => process.exit(EXIT.left) });
  }).then(() => log.notice('Stopping; calls in progress may end. Press Ctrl-C again to exit now.'));
}
