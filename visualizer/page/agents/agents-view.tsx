import type { AgentView, ToolSummary } from '../../../protocol/agent-view.ts';
import { ExplorerPane, type Play } from '../ahead/explorer.tsx';
import { playExample } from '../app/played.ts';
import { useTitle } from '../app/router.ts';
import { type AgentSummary, requestServer } from '../data/request.ts';
import { useRead } from '../data/server-watch.ts';
import { describeListedAgent, formatCount, formatJson } from '../render/format.ts';
import { Markdown } from '../ui/markdown.tsx';
import { type Fact, Facts, FoldedText, ProblemText, Safe } from '../ui/text.tsx';

export function AgentsView({ name }: { name: string | null }) {
  return name === null ? <AgentList /> : <OneAgent key={name} name={name} />;
}

function AgentList() {
  const { answer, problem } = useRead(() => requestServer<{ agents: AgentSummary[] }>('/agents'), []);
  useTitle('Agents');
  return (
    <main class="agents">
      <h1 tabIndex={-1}>Agents</h1>
      <ProblemText text={problem} />
      <ul class="cards">
        {answer?.agents.map(agent => (
          <li key={agent.name} class="card">
            <h2>
              <a href={`/agents/${encodeURIComponent(agent.name)}`}>
                <Safe text={agent.name} />
              </a>
            </h2>
            {agent.description !== undefined && <Safe in="p" text={agent.description} />}
            <Safe in="p" class="muted" text={describeListedAgent(agent)} />
          </li>
        ))}
      </ul>
      {answer?.agents.length === 0 && (
        <p class="empty">This server has no agents. Start it with: agentchart serve --agent MODULE</p>
      )}
    </main>
  );
}

function OneAgent({ name }: { name: string }) {
  const path = `/agents/${encodeURIComponent(name)}`;
  const { answer: agent, problem } = useRead(() => requestServer<AgentView>(path), [path]);
  useTitle(name);
  return (
    <main class="agent">
      <p>
        <a href="/agents">Agents</a> {' · '}
        <a href={`/runs?agent=${encodeURIComponent(name)}`}>Its runs</a>
      </p>
      <h1 tabIndex={-1}>
        <Safe text={name} />
      </h1>
      <ProblemText text={problem} />
      {agent && <AgentFacts agent={agent} />}
    </main>
  );
}

function AgentFacts({ agent }: { agent: AgentView }) {
  const path = `/agents/${encodeURIComponent(agent.name)}`;
  const play: Play = (events, told) => playExample({ ...told, of: agent.name, past: [], path: events });
  const { description, instructions, tools, sources } = agent;
  return (
    <>
      {description !== undefined && <Safe in="p" text={description} />}
      <Facts class="facts" of={agent.facts.map(({ name, value }): Fact => [name, value])} />
      <section>
        <h2>Exploration</h2>
        <p class="muted">Walks every path of the agent's runs on the server, and executes nothing.</p>
        <ExplorerPane path={path} maxStates={40_000} label="Explore" onPlay={play} />
      </section>
      <section>
        <h2>Instructions</h2>
        {instructions == null ? (
          <p class="muted">{instructions === null ? 'A function writes them for each run.' : 'None.'}</p>
        ) : (
          <Markdown text={instructions} />
        )}
      </section>
      <section>
        <h2>Tools</h2>
        {tools.length === 0 && sources === 0 && <p class="muted">None.</p>}
        <ul class="cards">
          {tools.map(tool => (
            <ToolCard key={tool.name} tool={tool} />
          ))}
        </ul>
        {sources > 0 && (
          <p class="muted">{`And the tools of ${formatCount(sources, 'tool server')}, known once it is connected.`}</p>
        )}
      </section>
    </>
  );
}

function ToolCard({ tool }: { tool: ToolSummary }) {
  const { name, description, inputSchema, sideEffect, says, reason } = tool;
  return (
    <li class={`card effect-${sideEffect}`}>
      <Safe in="h3" class="mono" text={name} />
      <Safe in="p" text={description} />
      <Safe in="p" class="muted" text={says} />
      {reason !== undefined && <Safe in="p" class="muted" text={`Reason for approval: ${reason}`} />}
      <FoldedText summary="Input schema" text={formatJson(inputSchema)} kind="mono" />
    </li>
  );
}
