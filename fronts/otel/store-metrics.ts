import type { Meter } from '@opentelemetry/api';
import { countRuns, countWaits } from '../../engine/listening/feed-follower.ts';
import type { Store } from '../../protocol/store.ts';

/** Adds gauges of the runs of a store by status, and of the calls that wait; they are read when metrics are collected. */
export function addStoreMetrics(meter: Meter, store: Store): void {
  meter.createObservableGauge('agentchart.runs', { unit: '{run}' }).addCallback(async result => {
    for (const [status, count] of Object.entries(await countRuns(store)))
      result.observe(count, { 'agentchart.run.status': status });
  });
  meter
    .createObservableGauge('agentchart.decisions.waiting', { unit: '{call}' })
    .addCallback(async result => {
      for (const [type, count] of Object.entries(await countWaits(store)))
        result.observe(count, { 'agentchart.wait.for': type });
    });
}
