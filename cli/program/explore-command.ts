import type { Command } from 'commander';
import type { ExploreCommandOptions } from '../commands/exploring/explore.ts';
import { AGENT, RUN, reading } from './command-options.ts';

/** Adds `explore`. */
export function addExplore(program: Command, end: (exitCode: number) => void): void {
  reading(program.command('explore'))
    .summary('check every path of an agent, or what may still happen to a run')
    .description(
      "Walk every path through the chart with the agent's tools, approvals and limits, and check the invariants at every step. With a run, start from its current state, and also print the states that it can reach, who has to approve, and what it may still spend. Executes nothing. Exits with 1 if an invariant is violated, and with 5 if none is but not every state was reached.",
    )
    .argument('[run]', `${RUN}; without it, from the start`)
    .option('--agent <module>', `${AGENT}; for a run, the module that started it by default`)
    .option('--at <seq>', "explore from this entry of the run (default: the run's last)")
    .option('--max-states <number>', 'stop after this many states (default: 12000)')
    .option('--connect', "start the agent's tool servers to list their tools; no tool is called")
    .option('--save-test <file>', 'write a vitest file with a test for each violated invariant')
    .action(async (run: string | undefined, options: ExploreCommandOptions) =>
      end(await (await import('../commands/exploring/explore.ts')).exploreAgent(run, options)),
    );
}
