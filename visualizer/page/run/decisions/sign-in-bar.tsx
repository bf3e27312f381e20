import { useSignal } from '@preact/signals';
import type { OpenSignIn } from '../../../../protocol/run-view.ts';
import { mayOperate } from '../../data/caller.ts';
import { describeThrown, requestServer, runPath } from '../../data/request.ts';
import { showSafe } from '../../render/format.ts';
import { Button } from '../../ui/button.tsx';
import { ProblemText, Safe } from '../../ui/text.tsx';

/** A button for each tool server at which a person must sign in. The run continues by itself once someone has. */
export function SignInBar({ open }: { open: readonly OpenSignIn[] }) {
  const problem = useSignal('');
  const begin = async ({ runId, server }: OpenSignIn): Promise<void> => {
    // Opened at once: browsers block windows that open later.
    const page = window.open('', '_blank');
    try {
      const { url } = await requestServer<{ url: string }>(`${runPath(runId)}/sign-in/begin`, { server });
      if (page === null) window.location.assign(url);
      else {
        page.opener = null;
        page.location.replace(url);
      }
    } catch (error) {
      page?.close();
      problem.value = describeThrown(error);
    }
  };
  return (
    <section class="decision" aria-label="Sign-ins">
      {open.map(one => (
        <p key={one.id}>
          <Safe text={one.reason} />{' '}
          {mayOperate() ? (
            <Button
              class="primary"
              label={`Sign in at ${showSafe(one.server)}`}
              onClick={() => void begin(one)}
            />
          ) : (
            <span class="muted">Only operators sign in at tool servers.</span>
          )}
        </p>
      ))}
      <ProblemText text={problem.value} />
    </section>
  );
}
