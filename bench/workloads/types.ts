import { measureTypes } from '../types/measure-types.ts';
import type { Workload } from '../workload.ts';

const TOOLS: Readonly<Record<string, number>> = { '1 tool': 1, '30 tools': 30, '100 tools': 100 };

/** The time that tsc takes for the types of an agent, by its number of tools. */
export const types: Workload = {
  name: 'types',
  title: 'Types (tsc checks an agent and the code that reads its results)',
  contenders: Object.keys(TOOLS),
  repetitions: 3,
  columns: [
    { label: 'check ms', metric: 'checkMs' },
    { label: 'added ms', metric: 'checkMs', as: 'added', aims: { '30 tools': '500' } },
    { label: 'added instantiations', metric: 'instantiations', as: 'added', aims: { '30 tools': '50,000' } },
  ],
  async measure(contender) {
    return { requests: '', metrics: measureTypes(TOOLS[contender] ?? 0) };
  },
};
