import type { Context } from '../machines/context.ts';
import type { RunCommand, Said } from './command.ts';
import type { CommandResult, SubmitResult } from './explain-refusal.ts';
import type { Settled } from './settled.ts';

/** What one run needs of another: of a sub-agent's, or of the one that waits for it. `Run` says what each promises. */
export interface RunHandle {
  readonly id: string;
  readonly context: Readonly<Context>;
  settled(): Promise<Settled>;
  submit(commands: readonly RunCommand[]): Promise<SubmitResult>;
  cancel(options?: Said & { reason?: string }): Promise<CommandResult>;
}
