import { findCall } from '../../../machines/calls.ts';
import { invalid } from '../api-error.ts';
import type { CallAnswer } from '../request/plan.ts';
import type { RunResponses } from '../run-responses.ts';
import { isSameTool, isServerTool, toolNamed } from '../wire/response-spec.ts';
import type { Toolset } from './toolset.ts';

/** Throws a `ResponsesError` unless the request provides the tool of every call that it approves. */
export function assertToolsProvided(
  run: RunResponses,
  callAnswers: readonly CallAnswer[],
  { exposed, lists }: Toolset,
): void {
  for (const { open, answer } of callAnswers) {
    if (answer.type !== 'approve') continue;
    const call = findCall(run.state.context, open.callId);
    const wanted = run.tools.of(open.callId);
    if (wanted !== undefined && call !== undefined && isSameTool(wanted, toolNamed(exposed, call.name)))
      continue;
    const label = isServerTool(wanted) ? wanted.label : undefined;
    const failed = lists.some(list => list.label === label && list.error !== undefined);
    throw invalid(
      'tools',
      'approval_continuation_invalid_tool',
      failed
        ? `The MCP server "${label}" of the approved call cannot be reached. Nothing ran. Send the approval again later.`
        : `'tools' does not include the tool of the approved call: "${wanted?.name ?? call?.name}" of the MCP server "${label}". Send the same MCP server as in the request that asked for approval.`,
    );
  }
}
