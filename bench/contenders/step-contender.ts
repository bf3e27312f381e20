/** An engine that stores a long run on disk. Model and tool are the same for all, and respond immediately. */
export interface StepContender {
  /** Runs `steps` rounds of one call. Calls `onStep` at the start of each round, and at the end. */
  run(steps: number, onStep: (step: number) => void): Promise<void>;
  /** The bytes of JSON passed to the store so far. */
  handedBytes(): number;
  /** Opens the run as a new process would. Resolves to its number of messages. */
  resume(): Promise<number>;
  close(): Promise<void>;
}

const CHECKPOINTS = 'whole state a step';
const JOURNAL = 'agentchart, sqlite';
export const STEP_CONTENDERS = [CHECKPOINTS, JOURNAL] as const;

/** Opens a contender on a database file. Throws an `Error` for an unknown name. */
export async function openStepContender(name: string, file: string): Promise<StepContender> {
  switch (name) {
    case CHECKPOINTS:
      return (await import('./checkpoint-loop.ts')).openCheckpointLoop(file);
    case JOURNAL:
      return (await import('./journaled-steps.ts')).openJournaledSteps(file);
    default:
      throw new Error(`Unknown contender "${name}". Expected one of: ${STEP_CONTENDERS.join('; ')}.`);
  }
}

/** Returns the call of a step. */
export function makeCall(step: number) {
  return {
    callId: `call_${step}`,
    name: 'measure',
    input: { point: step, unit: 'mm', note: textOf(step, 200) },
  };
}

/** Returns the result of a step's call. */
export async function makeResult(step: number): Promise<string> {
  return textOf(step + 0.5, 600);
}

/** Returns a text that differs in each step, so that a store cannot skip unchanged pages. */
function textOf(seed: number, length: number): string {
  let text = '';
  for (let value = seed * 7919 + 1; text.length < length; value = (value * 48_271) % 2_147_483_647)
    text += Math.floor(value).toString(36);
  return text.slice(0, length);
}
