import { PAGE_MEASURES } from '../page/measure-page.ts';
import type { Workload } from '../workload.ts';

const LONG = '10,000 entries';
const LIVE = 'a live run';
const LIST = '1,000 runs';
const LONG_LIST = '100,000 runs';

/** Budgets of times are those of a browser that paints an empty page after so many ms; on a slower one they grow. */
const scaledBy = { metric: 'emptyMs', at: 32 };

/** The budgets of the page, in Chromium. */
export const page: Workload = {
  name: 'page',
  title:
    'The page in Chromium (a run of 10,000 entries, a live run, lists). Limits of times are scaled by an empty page.',
  contenders: Object.keys(PAGE_MEASURES),
  repetitions: 3,
  columns: [
    { label: 'empty page ms', metric: 'emptyMs' },
    { label: 'first paint ms', metric: 'paintMs' },
    {
      label: 'of an empty page',
      metric: 'paintShare',
      digits: 2,
      budgets: { [LONG]: 1.6, [LIST]: 1.6, [LONG_LIST]: 1.6 },
    },
    {
      label: 'usable ms',
      metric: 'usableMs',
      scaledBy,
      budgets: { [LONG]: 400, [LIST]: 150, [LONG_LIST]: 200 },
    },
    { label: 'nodes', metric: 'nodes', budgets: { [LONG]: 5_000 } },
    { label: 'heap MB', metric: 'heapMB' },
    {
      label: 'renderer MB',
      metric: 'rendererMB',
      budgets: { [LONG]: 220, [LIST]: 220, [LONG_LIST]: 220 },
    },
    { label: 'next entry ms', metric: 'stepMs', digits: 1, scaledBy, budgets: { [LONG]: 16 } },
    { label: 'any entry ms', metric: 'jumpMs', digits: 1, scaledBy, budgets: { [LONG]: 50 } },
    { label: 'busy %', metric: 'busyPercent', budgets: { [LIVE]: 20 } },
    {
      label: 'longest task ms',
      metric: 'longestMs',
      scaledBy,
      budgets: { [LONG]: 50, [LIVE]: 50, [LIST]: 50, [LONG_LIST]: 50 },
    },
    { label: 'task of a move ms', metric: 'longestMoveMs', scaledBy, budgets: { [LONG]: 50 } },
    { label: 'list kB', metric: 'listKB', digits: 1, budgets: { assets: 45 } },
    { label: 'gzip kB', metric: 'assetsKB', digits: 1, budgets: { assets: 140 } },
  ],
  async measure(contender) {
    const metrics = await PAGE_MEASURES[contender]?.();
    if (metrics === undefined) throw new Error(`Unknown measure "${contender}".`);
    return { requests: '', metrics };
  },
};
