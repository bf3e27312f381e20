import { describe, expect, it } from 'vitest';
import exfiltration from '../../examples/exfiltration.ts';
import refund from '../../examples/refund.ts';
import research from '../../examples/research/agent.ts';
import steward from '../../examples/steward/agent.ts';
import supervisedChat from '../../examples/supervised-chat.ts';
import { explore } from '../../testing/index.ts';
import { sampled } from '../support/sample.ts';

describe('the agents of the examples', () => {
  it.each(sampled([refund, exfiltration, research, steward, supervisedChat], 1))(
    '$name breaks no built-in invariant',
    agent => {
      const { breaches, states } = explore(agent, { maxStates: 1_200 });
      expect(breaches).toEqual([]);
      expect(states).toBeGreaterThan(300);
    },
  );
});
