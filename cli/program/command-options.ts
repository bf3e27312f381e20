// cli/program: the commands with their options, arguments and help texts. `cli/commands/` holds what they do.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Command } from 'commander';

export const RUN = 'run id, or a unique prefix of one';
export const LABEL = 'label to find the run by, such as user=7; repeatable';
export const CALL = 'id of an open call, listed by `show RUN`';
export const AGENT = 'module whose default export is the agent';
export const DB =
  'SQLite file that holds the runs, or postgres://… (default: $AGENTCHART_DB, or .agentchart/runs.db)';
export const GRACE = 'how long calls in progress may take after SIGTERM or Ctrl-C; the rest is handed over';
export const BY = 'name to record as the author (default: the OS user)';

/** Collects the values of a repeatable option. */
export function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** Adds the options of commands that open a store. */
export function reading(command: Command): Command {
  return command
    .option('--db <file>', DB)
    .option('--json', 'print JSON Lines to stdout; messages go to stderr');
}

/** Adds the options of commands that show events. */
export function showing(command: Command): Command {
  return reading(command).option('--deltas', 'with --json: include streamed text and progress');
}

/** Adds the options of commands that drive a run; `by: false` for those without an author. */
export function driving(command: Command, { by = true }: { by?: boolean } = {}): Command {
  const driven = showing(command).option('--agent <module>', AGENT);
  return by ? driven.option('--by <name>', BY) : driven;
}

/** The version of this package. */
export function readVersion(): string {
  const file = createRequire(import.meta.url).resolve('agentchart/package.json');
  return String(JSON.parse(readFileSync(file, 'utf8')).version);
}
