import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { SideEffect } from '../protocol/tool.ts';
import type { FoundDifference } from './played-run.ts';
import { type Difference, ReportAdder, type ReportSums } from './report-sums.ts';

type CallFilter = { tool?: string; sideEffect?: SideEffect };

const FILTERS = optionNames<CallFilter>()('tool sideEffect');

/** See `ReportSums`. */
export type RegressReport = ReportSums & {
  newCalls(filter?: CallFilter): Difference[];
  missingCalls(filter?: CallFilter): Difference[];
};

export class ReportBuilder extends ReportAdder {
  override report(how: { complete: boolean }): RegressReport {
    const sums = super.report(how);
    const ofKind = (kind: FoundDifference['kind'], filter: CallFilter) => {
      refuseUnknownOptions('a filter of calls', filter, FILTERS, 'input-invalid');
      const { tool, sideEffect } = filter;
      return sums.differences.filter(
        one =>
          one.kind === kind &&
          (tool === undefined || one.tool === tool) &&
          (sideEffect === undefined || one.sideEffect === sideEffect),
      );
    };
    return {
      ...sums,
      newCalls: (filter = {}) => ofKind('new-call', filter),
      missingCalls: (filter = {}) => ofKind('missing-call', filter),
    };
  }
}
