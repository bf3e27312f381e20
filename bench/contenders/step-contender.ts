/** An engine that keeps a long run on disk. Model and tool are the same for all, and answer at once. */
export interface StepContender {
  /** A run of so many rounds of one call; `onStep` at the beginning of each, and at the end. */
  run(steps: number, onStep: (step: number) => void): Promise<void>;
  /** What was given to be written so far: characters of JSON, which is ASCII here. */
  handedBytes(): number;
  /** Opens the run as a new process would that takes it over in the middle; gives how many messages it has. */
  resume(): Promise<number>;
  close(): Promise<void>;
}

export const CHECKPOINTS = 'whole state a step';
export const JOURNAL = 'agentchart, sqlite';
export const STEP_CONTENDERS = [CHECKPOINTS, JOURNAL] as const;

export async function openStepContender(name: string, file: string): Promise<StepContender> {
  switch (name) {
    case CHECKPOINTS:
      return (await import('./checkpoint-loop.ts')).openCheckpointLoop(file);
    case JOURNAL:
      return (await import('./journaled-steps.ts')).openJournaledSteps(file);
    default:
      throw new Error(`There is no contender "${name}". They are: ${STEP_CONTENDERS.join('; ')}.`);
  }
}

export function makeCall(step: number) {
  return {
    callId: `call_${step}`,
    name: 'measure',
    input: { point: step, unit: 'mm', note: textOf(step, 200) },
  };
}

export async function makeResult(step: number): Promise<string> {
  return textOf(step + 0.5, 600);
}

/** Text of so many characters that differs from step to step: a store does not get away with unchanged pages. */
function textOf(seed: number, length: number): string {
  let text = '';
  for (let value = seed * 7919 + 1; text.length < length; value = (value * 48_271) % 2_147_483_647)
    text += Math.floor(value).toString(36);
  return text.slice(0, length);
}
