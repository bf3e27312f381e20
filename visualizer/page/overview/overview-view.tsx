// visualizer/page/overview: what needs someone, and what the runs did and used.

import { useTitle } from '../app/router.ts';
import type { PageSource } from '../data/source.ts';
import { Needs } from './needs.tsx';

export function OverviewView({ source }: { source: PageSource }) {
  useTitle('Overview');
  return (
    <main class="overview">
      <h1 tabIndex={-1}>Overview</h1>
      <Needs source={source} />
    </main>
  );
}
