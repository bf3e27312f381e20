import { PAGE_MEASURES } from '../page/measure-page.ts';
import type { Workload } from '../workload.ts';

const LONG = '10,000 entries';
const LIVE = 'a live run';

/** The budgets of the debugger page, in Chromium. */
export const page: Workload = {
  name: 'page',
  title: 'The page in Chromium (a run of 10,000 entries, a live run, the list of 1,000 runs)',
  contenders: Object.keys(PAGE_MEASURES),
  repetitions: 3,
  columns: [
    { label: 'first paint ms', metric: 'paintMs', aims: { [LONG]: '150' } },
    { label: 'usable ms', metric: 'usableMs', aims: { [LONG]: '400' } },
    { label: 'nodes', metric: 'nodes', aims: { [LONG]: '5,000' } },
    { label: 'heap MB', metric: 'heapMB' },
    { label: 'renderer MB', metric: 'rendererMB', aims: { [LONG]: '220' } },
    { label: 'next entry ms', metric: 'stepMs', digits: 1, aims: { [LONG]: '16' } },
    { label: 'any entry ms', metric: 'jumpMs', digits: 1, aims: { [LONG]: '50' } },
    { label: 'busy %', metric: 'busyPercent', aims: { [LIVE]: '20' } },
    { label: 'longest task ms', metric: 'longestMs', aims: { [LIVE]: '50' } },
    { label: 'list ms', metric: 'listMs', aims: { '1,000 runs': '150' } },
    { label: 'gzip kB', metric: 'assetsKB', aims: { assets: '100' } },
  ],
  async measure(contender) {
    const metrics = await PAGE_MEASURES[contender]?.();
    if (metrics === undefined) throw new Error(`Unknown measure "${contender}".`);
    return { requests: '', metrics };
  },
};
