import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { tool } from '../../../../agent/index.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { needsApproval } from '../../../../server/gateway/agents/toolset.ts';
import { gatewayConfigSchema } from '../../../../server/gateway/config/gateway-config.ts';
import type { McpTool } from '../../../../server/gateway/request/request-tools.ts';

describe('whether a call needs approval', () => {
  type Asked = McpTool['require_approval'];
  const asks = (
    config: JsonObject | undefined,
    require_approval: Asked = null,
    name = 'echo',
    readOnlyHint = false,
  ) => {
    const { mcpServers } = gatewayConfigSchema.parse({ mcp_servers: { a: { command: 'x', ...config } } });
    const asked: McpTool = { type: 'mcp', server_label: 'a', require_approval };
    const own = tool({ name, description: '', input: z.object({}), run: () => '' });
    const origin = { label: 'a', tool: { name, inputSchema: {}, annotations: { readOnlyHint } } };
    const server = {
      label: 'a',
      hidden: false,
      target: 'a',
      config: config && mcpServers.a,
      asked,
      tools: [],
    };
    return needsApproval({ ...own, origin }, server);
  };

  it('is the default, as at OpenAI; a call skips approval only if a side says never and no side says always', () => {
    expect(asks(undefined)).toBe(true);
    expect(asks({})).toBe(true);
    expect(asks(undefined, 'never')).toBe(false);
    expect(asks({ require_approval: 'never' })).toBe(false);
    expect(asks({ require_approval: 'never' }, 'always')).toBe(true);
    expect(asks({ require_approval: 'always' }, 'never')).toBe(true);
  });

  it('follows lists of tool names; an empty filter decides nothing', () => {
    expect(asks(undefined, { never: { tool_names: ['echo'] } })).toBe(false);
    expect(asks(undefined, { never: { tool_names: ['echo'] } }, 'other')).toBe(true);
    expect(
      asks({ require_approval: { never: { tool_names: ['echo'] }, always: { tool_names: ['other'] } } }),
    ).toBe(false);
    expect(
      asks(
        { require_approval: { never: { tool_names: ['echo'] }, always: { tool_names: ['other'] } } },
        'never',
        'other',
      ),
    ).toBe(true);
    expect(asks({ require_approval: 'never', tools: { echo: { approval: true } } }, 'never')).toBe(true);
    expect(asks({ require_approval: 'always', tools: { echo: { approval: false } } }, 'never')).toBe(false);
    expect(asks(undefined, { never: {} })).toBe(true);
  });

  it('follows the read-only annotation of the server', () => {
    expect(asks(undefined, { never: { read_only: true } })).toBe(true);
    expect(asks(undefined, { never: { read_only: true } }, 'echo', true)).toBe(false);
    expect(asks({ require_approval: 'never' }, { always: { read_only: false } })).toBe(true);
    expect(asks({ require_approval: 'always' }, { never: { read_only: true } }, 'echo', true)).toBe(true);
  });
});
