import type { Call } from '../../machines/context.ts';
import type { PlayedCall } from '../run/forks/recorded-calls.ts';
import type { ServiceScope } from './service.ts';

/** Without a store, the original's results are out of reach. */
const OUT_OF_REACH: PlayedCall = {
  missing:
    'Not executed: this run plays the results of another one, and has no store. Retry executes the call.',
};

/** What the call plays; `null` if it has to be executed: the run plays no results, or a person decided to retry it. */
export async function findPlayed(
  { context, play }: Pick<ServiceScope, 'context' | 'play'>,
  call: Call,
): Promise<PlayedCall | null> {
  const now = context();
  if (now.config.playsResultsOf === undefined || call.doubt !== undefined) return null;
  return (await play?.(now, call)) ?? OUT_OF_REACH;
}
