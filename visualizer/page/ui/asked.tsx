import { useState } from 'preact/hooks';
import { actingName } from '../data/acting-as.ts';
import { tokenName } from '../data/caller.ts';
import { showSafely } from '../render/show-safely.ts';
import { NameField } from './name-field.tsx';

/** What the first press of a decision asks; and who decides, if neither the server nor this browser knows. */
export function Asked({ words }: { words: string }) {
  return (
    <div class="asked">
      <p role="status">
        {words === '' ? null : (
          <>
            <strong>
              <bdi>{showSafely(words)}</bdi>
            </strong>{' '}
            <span class="muted">Press again, or Enter. Escape leaves it open.</span>
          </>
        )}
      </p>
      {words === '' ? null : <WhoDecides />}
    </div>
  );
}

function WhoDecides() {
  const [isUnknown] = useState(() => tokenName() === '' && actingName.peek().trim() === '');
  return isUnknown ? <NameField label="Decided by" /> : null;
}
