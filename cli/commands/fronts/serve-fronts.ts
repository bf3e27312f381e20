import { createA2aApi } from '../../../fronts/a2a/a2a-api.ts';
import { createAgUiApi } from '../../../fronts/ag-ui/handler.ts';
import { createChatApi } from '../../../fronts/ai-sdk-ui/chat/chat-handler.ts';
import { createMcpApi } from '../../../fronts/mcp/mcp-api.ts';
import { stateKeyOf } from '../../../fronts/mcp/state-key.ts';
import { ServedRuns, type ServedRunsOptions } from '../../../fronts/served/served-runs.ts';
import type { MountedApi } from '../../../server/mounted-api.ts';
import { beginWithin } from '../../../server/runs/begin-run.ts';
import type { ServerLog } from '../serving/serve-log.ts';

type FrontsOptions = Required<Pick<ServedRunsOptions, 'store' | 'agents' | 'launches' | 'admission'>> & {
  /** The database, beside which keys are kept. */
  file: string;
  version: string;
  /** Whether callers need a token. */
  hasToken: boolean;
  log: ServerLog;
};

/** The protocols in which `agentchart serve` offers its agents besides its own; none without agents. */
export function serveFronts({ file, version, log, hasToken, ...served }: FrontsOptions): MountedApi[] {
  if (served.agents.size === 0) return [];
  const report = (line: string) => log.problem(line);
  const agents = [...served.agents.values()];
  const begin = beginWithin(served);
  const runs = new ServedRuns({ ...served, log: report });
  return [
    createMcpApi({ runs, key: () => stateKeyOf(file, report), version, log: report }),
    createA2aApi({ runs, hasToken, log: report }),
    createChatApi(agents, { begin, log: report }),
    createAgUiApi(agents, { begin, log: report }),
  ];
}
